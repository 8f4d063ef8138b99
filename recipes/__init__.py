"""Whole trainings, each in a folder of its own, read from top to bottom."""
