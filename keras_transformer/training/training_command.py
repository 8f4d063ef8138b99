"""A training command with its settings, run directory, limits and flags."""

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from keras_transformer.errors import UserInputError
from keras_transformer.settings import FITTED, SettingValue, add_run_arguments
from keras_transformer.training.training_options import TrainingOptions
from keras_transformer.training.training_settings import TrainingSettings
from keras_transformer.types import PathLike

SomeSettings = TypeVar("SomeSettings", bound=TrainingSettings, covariant=True)


@dataclasses.dataclass(frozen=True)
class TrainingCommand(Generic[SomeSettings]):
    """An invocation of a training command.

    Args:
        settings: settings of the command, stored in the run directory.
        run: the run directory.
        overwrite: whether to replace an existing run directory.
        resume: whether to resume the run in the directory, or start a new run if there is none.
        minutes: stop after this many minutes of training.
        origin: run that provides the initial model and the tokenizers.
        command: the user's command, quoted for a shell.
        given: explicitly specified settings by name. Other settings may be fitted to the text; see
            `translation_training.fit_settings`. None keeps all of `settings`.
    """

    settings: SomeSettings
    run: PathLike
    overwrite: bool = False
    resume: bool = False
    minutes: float | None = None
    origin: PathLike | None = None
    command: str = ""
    given: Mapping[str, SettingValue] | None = None

    @classmethod
    def from_arguments(
        cls,
        arguments: argparse.Namespace,
        settings_class: type[SomeSettings],
        command: str,
        *,
        fits: bool = False,
    ) -> "TrainingCommand[SomeSettings]":
        """Read the options from arguments defined by `add_training_arguments`.

        A resumed run keeps its settings, and a run that starts from another run inherits the other
        run's settings, except `of_one_run`, and its search options. Explicitly specified settings
        take precedence.

        Args:
            arguments: namespace of parsed arguments.
            settings_class: class of the settings.
            command: the user's command.
            fits: whether unspecified settings may be fitted to the text.

        Raises:
            UserInputError: `--resume` without `--run`, a missing run, or invalid settings.
        """
        if arguments.resume and arguments.run == arguments.default_run:
            raise UserInputError("--resume needs --run DIR, the run to resume.")
        from keras_transformer.runs.run_directory import RunDirectory

        origin, base = getattr(arguments, "from", None), None
        if arguments.resume and RunDirectory(arguments.run).is_run():
            base = RunDirectory.open(arguments.run).settings()
        elif origin:
            run = RunDirectory.open(origin)
            search: dict[str, Any] = {
                k: v for k, v in run.search_defaults().items() if k in settings_class.defaults()
            }
            theirs = run.settings().items()
            inherited = {k: v for k, v in theirs if k not in settings_class.of_one_run}
            base = {**inherited, **search}
        settings = settings_class.from_arguments(arguments, arguments.settings, base)
        return cls(
            settings=settings,
            given=settings_class.given(arguments, arguments.settings) if fits else None,
            run=arguments.run,
            overwrite=arguments.overwrite,
            resume=arguments.resume,
            minutes=arguments.minutes,
            origin=origin,
            command=command,
        )

    def training_options(self) -> TrainingOptions:
        """Return the options for a `TrainingRun`."""
        names = ("minutes", "resume", "overwrite", "origin", "command")
        own: Any = {name: getattr(self, name) for name in names}
        return TrainingOptions(**{**self.settings.training_options(), **own})


def add_training_arguments(
    parser: argparse.ArgumentParser,
    settings_class: type[TrainingSettings],
    runs: PathLike,
    fine_tuning: bool = True,
    fits: bool = False,
) -> None:
    """Add the flags of a `TrainingCommand` and of the settings to a parser.

    Args:
        parser: the parser.
        settings_class: class of the settings; each field becomes a flag.
        runs: parent folder of the default run directory, which is named after the time.
        fine_tuning: whether training can start from another run.
        fits: whether unspecified settings may be fitted to the text; if so, the help says so.
    """
    add_run_arguments(parser, runs, fine_tuning)
    settings_class.add_arguments(parser, FITTED if fits else {})
