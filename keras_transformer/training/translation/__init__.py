"""The parts of the training of a translation model."""
