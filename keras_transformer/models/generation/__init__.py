"""What `SequenceGenerator` is made of, beside the search: checks of its inputs, compiled calls."""
