"""What a command that trains a translation model does when its flags are read."""

from keras_transformer.translation_training.training import train_translation


def run_training(options, data):
    """Train as a command's options say.

    Args:
        options: `TrainingOptions` with `TranslationSettings`.
        data: `TranslationData`.

    Returns:
        The exit code of the command: None, or that of Ctrl-C or SIGTERM.
    """
    record = train_translation(
        options.settings,
        data,
        options.run,
        minutes=options.minutes,
        origin=options.origin,
        overwrite=options.overwrite,
        resume=options.resume,
        command=options.command,
    )
    return record.exit_code
