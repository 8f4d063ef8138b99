"""The verbs of `keras-transformer`, one file each.

Each file has the verb's `HELP`, `DESCRIPTION` and, perhaps, `USAGE`; `add_arguments(parser)`, which
adds its arguments when they are first needed; and a function of the verb's name, which runs it.
With `add_essential(parser)`, `--help` shows these flags alone. Keras and TensorFlow are imported
when a verb runs, to keep `--help` fast.
"""
