"""Fixtures that every test may need."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def anyio_backend() -> str:
    """Tests run on asyncio, the only loop that uvicorn and the shell's worker pipes are used with."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Commands that run within a test set the log up; the next test finds it as it was."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        logging.captureWarnings(capture=False)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The team's shared trajectories; a stranger's clone has none and skips."""
    if not (SHARED / "trajectories").is_dir():
        pytest.skip("the shared trajectories are not here")
    return SHARED
