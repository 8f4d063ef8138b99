"""The demo: English number words to German."""
