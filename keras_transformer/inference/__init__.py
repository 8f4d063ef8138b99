"""Trained models at work: text to translations, sentences to trees, pairs to alignments."""
