"""The verbs of `keras-transformer`, with one file per verb.

Each file defines the verb's `HELP`, `DESCRIPTION` and, optionally, `USAGE`;
`add_arguments(parser)`, which adds the arguments when they are first needed; and a function with
the verb's name that runs the verb. If a file defines `add_essential(parser)`, `--help` shows only
its flags. Keras and TensorFlow are imported only when a verb runs, to keep `--help` fast.
"""
