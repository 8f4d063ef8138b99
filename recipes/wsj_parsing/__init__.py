"""Constituency parsing on the Wall Street Journal, as in section 6.3 of the paper."""
