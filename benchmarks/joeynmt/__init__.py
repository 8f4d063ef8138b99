"""Quality of this package and of JoeyNMT after the same time of training."""
