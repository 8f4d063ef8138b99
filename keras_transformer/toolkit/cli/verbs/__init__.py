"""The verbs of `keras-transformer`, one file each.

Each file contains the verb's `HELP`, `DESCRIPTION` and, optionally, `USAGE`;
`add_arguments(parser)`, which adds its arguments when they are first needed; and a function with
the verb's name, which runs it. If there is an `add_essential(parser)`, `--help` shows only its
flags. Keras and TensorFlow are imported when a verb runs, to keep `--help` fast.
"""
