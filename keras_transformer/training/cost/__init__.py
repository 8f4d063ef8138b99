"""What a training costs: its work in tokens and operations, and what the devices could do."""
