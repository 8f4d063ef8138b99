"""Speed of this package and other programs, measured alternately on the same work."""
