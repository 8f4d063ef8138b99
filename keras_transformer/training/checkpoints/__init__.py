"""Training data on disk: checkpoints, averages, and states for resuming."""
