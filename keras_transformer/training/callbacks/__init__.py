"""The callbacks of a training: limits, logs, validation and signals."""
