"""Using trained models: from text to translations, sentences to trees, pairs to alignments."""
