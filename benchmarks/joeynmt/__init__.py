"""Quality after the same minutes of training, of this package and of JoeyNMT."""
