"""Which pairs a step reads, and the arrays it gets."""
