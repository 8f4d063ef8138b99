"""`keras-transformer score`: how probable given translations are."""

from keras_transformer.commands.parallel_lines import (
    add_parallel_arguments,
    print_line_for_each_pair,
)


def add_parser(verbs):
    """Add the verb to the `argparse` subparsers `verbs`."""
    parser = verbs.add_parser(
        "score",
        help="print the log-probability of given translations",
        description="Print the natural log-probability of each target line given its source line, "
        "end of sentence included, one number a line.",
    )
    parser.set_defaults(verb=score)
    add_parallel_arguments(parser)
    parser.add_argument(
        "--normalize",
        action="store_true",
        help="divide by the number of target tokens, end of sentence included",
    )


def score(options):
    """Run the verb with the parsed command line."""

    def lines_of(translator, sources, targets):
        scores = translator.score(sources, targets, normalize=options.normalize)
        return [f"{value:.6f}" for value in scores]

    print_line_for_each_pair(options, lines_of)
