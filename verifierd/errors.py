"""Every error that verifierd raises on purpose.

    VerifierdError            has `message` and `hint`; the command line prints both
    ├── ConfigError           a setting is wrong (exit 78)
    │   ├── PolicyError       a policy document is wrong
    │   └── ContractError     a contract document is wrong
    ├── SourceError           an input cannot be read
    ├── FormatError           an input is readable, but in no format we know
    ├── StateError            the state directory or database cannot be used (exit 75 or 78)
    ├── PredictorError        a predictor is unknown or cannot start
    └── LabelError            a label cannot be kept or taken back

They live in a leaf module so that any layer can raise them without an import loop.
"""

__all__ = (
    "ConfigError",
    "ContractError",
    "FormatError",
    "LabelError",
    "PolicyError",
    "PredictorError",
    "SourceError",
    "StateError",
    "VerifierdError",
)


class VerifierdError(Exception):
    """Base of all. `str()` is one line that names file and place; `hint` says what a person can do.

    Args:
        message: What is wrong, where.
        hint: The remedy.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(VerifierdError):
    """A configuration file or option has an unknown key, a wrong type or an impossible value."""

    exit_code = 78


class PolicyError(ConfigError):
    """A policy cannot be found or read."""


class ContractError(ConfigError):
    """A contract document cannot be read, or contradicts itself."""


class SourceError(VerifierdError):
    """An input is missing, unreadable, or not a plain file."""


class FormatError(VerifierdError):
    """No adapter recognises the input."""


class StateError(VerifierdError):
    """The state directory is unwritable, locked by another daemon, or its database is damaged.

    Args:
        message: What is wrong, where.
        hint: The remedy.
        temporary: True if trying again later may succeed.
    """

    def __init__(self, message: str, *, hint: str = "", temporary: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.temporary = temporary
        self.exit_code = 75 if temporary else 78


class PredictorError(VerifierdError):
    """A predictor's name is unknown, or it cannot be started here."""


class LabelError(VerifierdError):
    """An id is none, unknown or ambiguous, or there is no label to take back.

    Args:
        message: What is wrong.
        hint: The remedy.
        missing: True if nothing has that id.
    """

    def __init__(self, message: str, *, hint: str = "", missing: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing
