"""The cost of training: its tokens and operations, and the speed of its devices."""
