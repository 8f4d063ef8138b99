"""What every training command has beside its data: settings, and where and how long it trains."""

import dataclasses
import datetime
import pathlib

from keras_transformer.command_line.command_errors import positive_number
from keras_transformer.errors import UserInputError
from keras_transformer.settings import Settings


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """One call of a training command.

    Args:
        settings: the command's settings; the run directory keeps them.
        run: the run directory.
        overwrite: replace a run directory that is there already.
        resume: go on with the run in the directory, or begin it where none has begun.
        minutes: stop after so many minutes of training, or None.
        origin: the run whose model and tokenizers the training starts from, or None.
        command: the command that the user gave, fit to be pasted into a shell.
    """

    settings: Settings
    run: pathlib.Path
    overwrite: bool
    resume: bool
    minutes: float | None
    origin: pathlib.Path | None
    command: str

    @classmethod
    def from_arguments(cls, arguments, settings_class, command):
        """The options in the namespace of a parser that `add_training_arguments` extended.

        A training that goes on with a run, or starts from one, has that run's settings, but for
        those that are given.

        Raises:
            UserInputError: `--resume` without `--run`; no run to start from; wrong settings.
        """
        from keras_transformer.runs.run_directory import RunDirectory  # brings Keras

        if arguments.resume and arguments.run == arguments.default_run:
            raise UserInputError("--resume needs --run DIR, the run to go on with.")
        origin, base = getattr(arguments, "from", None), None
        if arguments.resume and RunDirectory(arguments.run).is_run():
            base = RunDirectory.open(arguments.run).settings()
        elif origin:
            base = RunDirectory.open(origin).settings()
        return cls(
            settings=settings_class.from_arguments(arguments, arguments.settings, base),
            run=arguments.run,
            overwrite=arguments.overwrite,
            resume=arguments.resume,
            minutes=arguments.minutes,
            origin=origin,
            command=command,
        )


def add_training_arguments(parser, settings_class, runs, fine_tuning=True):
    """Give an `argparse` parser the flags of `TrainingOptions` and of the settings.

    Args:
        parser: the parser.
        settings_class: a `Settings` subclass; every field is a flag.
        runs: folder of the default run directory, which is named after the time.
        fine_tuning: whether the training can start from another run.
    """
    default_run = pathlib.Path(runs, f"{datetime.datetime.now():%Y%m%d-%H%M%S}")
    add = parser.add_argument
    add(
        "--run",
        type=pathlib.Path,
        default=default_run,
        metavar="DIR",
        help=f"run directory (default: {default_run.parent}/<date>-<time>)",
    )
    parser.set_defaults(default_run=default_run)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--overwrite", action="store_true", help="replace an existing run")
    either.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in DIR from its last checkpoint, to the last bit; needs --run. "
        "Where no run has begun yet it begins",
    )
    add(
        "--minutes",
        type=positive_number,
        metavar="M",
        help="stop after M minutes of training, then finish as usual (default: train all steps); "
        "with --resume, minutes of the whole training",
    )
    if fine_tuning:
        add(
            "--from",
            type=pathlib.Path,
            metavar="RUN",
            help="start from the weights of another run, with its model, tokenizers and settings",
        )
    add(
        "--settings",
        type=pathlib.Path,
        metavar="FILE",
        help="JSON or TOML file of settings, such as another run's settings.json; flags outrank it",
    )
    settings_class.add_arguments(parser)
