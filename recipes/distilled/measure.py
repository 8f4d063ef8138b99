"""Compare a student with its teacher again, for example on an idle machine."""

import pathlib
import sys
from collections.abc import Sequence

from keras_transformer import RunDirectory
from keras_transformer.data import ParallelFiles
from keras_transformer.toolkit.cli import CommandParser, run_command
from recipes.distilled.comparison import compare
from recipes.distilled.student_options import add_comparison_arguments
from recipes.distilled.teacher import Teacher


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table. `arguments` are command-line arguments."""
    parser = CommandParser(prog="python -m recipes.distilled.measure", description=__doc__)
    add = parser.add_argument
    add(
        "students",
        nargs="+",
        type=pathlib.Path,
        metavar="STUDENT",
        help="run directory of the student; the table is written to the first one",
    )
    add("--test-source", required=True, metavar="FILE", help="source sentences to score")
    add("--test-target", required=True, metavar="FILE", help="reference translations")
    add_comparison_arguments(parser)
    values = parser.parse_args(arguments)
    students = [RunDirectory.open(path) for path in values.students]
    teacher = Teacher.open(values.teacher) if values.teacher else None
    text = ParallelFiles(values.test_source, values.test_target)
    compare(teacher, students, text, exports=values.exports)


if __name__ == "__main__":
    sys.exit(run_command(main))
