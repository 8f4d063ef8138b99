"""The verbs of `keras-transformer`, one file each.

Each file's `add_parser(verbs)` adds its verb to the command line. Keras and TensorFlow are imported
when a verb runs, to keep `--help` fast.
"""
