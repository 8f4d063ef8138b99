"""Speed of this package and of its peers, measured alternately on the same work."""
