"""A training's directory on disk: its files, their checksums and its lock."""
