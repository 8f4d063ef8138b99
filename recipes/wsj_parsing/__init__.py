"""Constituency parsing of the Wall Street Journal: section 6.3 of the paper."""
