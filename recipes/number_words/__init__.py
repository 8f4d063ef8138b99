"""English number words into German: the demo."""
