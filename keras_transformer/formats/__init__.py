"""Model formats: each folder has a writer, a reader and the layout that they share."""
