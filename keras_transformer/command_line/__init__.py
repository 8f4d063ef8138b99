"""What the programs of this package share: flags, exit codes, and lines in and out."""
