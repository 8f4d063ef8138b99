"""Classes that the layers inherit from."""
