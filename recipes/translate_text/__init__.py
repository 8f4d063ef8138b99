"""Any two text files."""
