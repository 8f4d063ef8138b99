"""Image captions of Multi30k, English into German."""
