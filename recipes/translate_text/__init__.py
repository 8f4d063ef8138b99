"""Train a translator on any two text files."""
