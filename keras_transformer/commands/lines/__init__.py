"""What verbs do that answer each line with a line."""
