"""Model formats. Each folder contains a writer, a reader and their shared layout."""
