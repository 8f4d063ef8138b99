"""Use trained models: turn text into translations, sentences into trees, pairs into alignments."""
