"""The parts of training a translation model."""
