"""Callbacks for training: limits, logs, validation and signals."""
