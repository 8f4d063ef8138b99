"""Multi30k image captions, English to German."""
