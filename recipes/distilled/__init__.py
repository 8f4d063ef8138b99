"""A small, fast student that learns from the translations of one or more teachers."""
