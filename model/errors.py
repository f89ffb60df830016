"""Errors that are raised to be shown: their text is one line that says what is wrong and what to do next."""


class TxError(Exception):
    """Base of every error that `tx` shows to a user as one line (exit status 1)."""


class UsageError(TxError):
    """What was asked for does not make sense as asked: an unknown language, an option out of range (exit status 2)."""


class InputError(TxError):
    """The text cannot be read: not UTF-8, no such file, a column that is not there."""


class ConfigError(TxError):
    """A configuration with an unknown field, a value out of range, or two fields that contradict each other."""


class CheckpointError(TxError):
    """A checkpoint that is missing, incomplete, damaged, or of another kind than expected."""


NOT_A_NUMBER = "the model's output is not a number: its weights are damaged or do not fit its configuration"
