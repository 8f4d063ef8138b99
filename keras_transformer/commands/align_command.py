"""`keras-transformer align`: which words of a source and its translation belong together."""

from keras_transformer.commands.parallel_lines import (
    add_parallel_arguments,
    print_line_for_each_pair,
)


def add_parser(verbs):
    """Add the verb to the `argparse` subparsers `verbs`."""
    parser = verbs.add_parser(
        "align",
        help="align the words of sources and given translations",
        description="Print for each pair of lines, by the model's cross-attention, the source word "
        "of every target word, as `source-target` pairs of word numbers from 0 (Pharaoh format).",
    )
    parser.set_defaults(verb=align)
    add_parallel_arguments(parser)


def align(options):
    """Run the verb with the parsed command line."""

    def lines_of(translator, sources, targets):
        return [alignment.pharaoh() for alignment in translator.align(sources, targets)]

    print_line_for_each_pair(options, lines_of)
