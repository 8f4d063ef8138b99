"""Errors whose message is all that a user needs to go on."""


class UserInputError(ValueError):
    """Input that a user can mend: the message is one clear line, commands show no traceback."""


class TrainingDiverged(UserInputError):
    """The loss is no finite number; the message names the step and the last good checkpoint."""


class CannotWrite(UserInputError):
    """A file could not be written, such as on a full disk; what stood there before is whole."""


class WorkerLost(UserInputError):
    """Another machine of the training has gone; the message says how all go on together."""
