"""The tests of this folder run real models, tiny ones; where MLX is not to be had they are passed over."""

import importlib.util
from pathlib import Path

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("mlx_lm") else ["*.py"]


@pytest.fixture(scope="session")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of short system prompts."""
    folder = tmp_path_factory.mktemp("prompts")
    for domain in ("terminal", "mcp"):
        (folder / domain).mkdir()
        (folder / domain / "system_prompt.txt").write_text(f"You are a {domain}.")
    return folder
