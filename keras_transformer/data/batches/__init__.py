"""Which pairs each step reads, and the arrays that it gets."""
