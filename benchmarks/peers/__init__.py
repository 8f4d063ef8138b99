"""Speed of this package and of other programs, measured alternately on the same work."""
