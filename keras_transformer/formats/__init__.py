"""Model formats. Each folder contains a writer, a reader and the layout that they share."""
