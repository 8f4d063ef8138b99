"""What a training costs: its tokens and operations, and the speed of its devices."""
