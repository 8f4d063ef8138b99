"""Files that may come from anybody, and files that must not be lost: reading, writing, locking."""
