"""Fixtures that every test may need."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def anyio_backend() -> str:
    """Tests run on asyncio, the only loop that uvicorn and the shell's worker pipes are used with."""
    return "asyncio"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The team's shared trajectories; a stranger's clone has none and skips."""
    if not (SHARED / "trajectories").is_dir():
        pytest.skip("the shared trajectories are not here")
    return SHARED
