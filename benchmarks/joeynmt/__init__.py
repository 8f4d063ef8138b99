"""Quality of this package and JoeyNMT after the same training time."""
