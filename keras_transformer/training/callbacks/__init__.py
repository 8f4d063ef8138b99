"""Training callbacks for limits, logs, validation and signals."""
