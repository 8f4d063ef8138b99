"""What training keeps on disk: checkpoints, their averages, and states to resume from."""
