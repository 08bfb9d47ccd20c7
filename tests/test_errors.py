"""The errors that verifierd raises on purpose."""

import inspect

import pytest

from verifierd import errors
from verifierd.errors import ConfigError, PolicyError, StateError, VerifierdError

KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", KINDS)
def test_message_and_hint(kind: type[VerifierdError]) -> None:
    """Each carries what is wrong and what a person can do; as a text it is what is wrong."""
    error = kind("t.toml: broken", hint="Mend it.")

    assert isinstance(error, VerifierdError)
    assert (str(error), error.message, error.hint) == ("t.toml: broken", "t.toml: broken", "Mend it.")
    assert kind("no hint").hint == ""


@pytest.mark.parametrize("kind", KINDS)
def test_exit_codes(kind: type[VerifierdError]) -> None:
    """Wrong settings exit with 78, as sysexits.h has it; other failures with 1."""
    expected = 78 if issubclass(kind, (ConfigError, StateError)) else 1

    assert kind("broken").exit_code == expected


def test_a_state_may_be_usable_later() -> None:
    """A temporary trouble with the state exits with 75, so that a supervisor tries again."""
    assert StateError("locked", temporary=True).exit_code == 75
    assert StateError("damaged").exit_code == 78


def test_a_wrong_policy_is_a_wrong_setting() -> None:
    """Who catches configuration errors catches policy errors, too."""
    assert issubclass(PolicyError, ConfigError)


@pytest.mark.parametrize("kind", KINDS)
def test_the_drawing_is_complete(kind: type[VerifierdError]) -> None:
    """Each class stands in the tree that opens the module, and is documented."""
    assert kind.__name__ in (errors.__doc__ or "")
    assert inspect.getdoc(kind)
