"""Finding documents in a checkout and in a wheel."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from verifierd.bundled import root

CHECKOUT = Path(__file__).parents[1]
FIND = "from verifierd.bundled import root; print(root('policies')); print((root('policies') / 'x.toml').read_text())"


def _package(folder: Path, *, bundled: str) -> Path:
    """A copy of the one module in a package that lies elsewhere, with a bundled document."""
    package = folder / "verifierd"
    (package / "_bundled" / "policies").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    shutil.copy(CHECKOUT / "verifierd" / "bundled.py", package)
    (package / "_bundled" / "policies" / "x.toml").write_text(bundled)
    return package


def _found(folder: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-c", FIND], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("kind", ["policies", "replay"])
def test_a_checkout_finds_its_own(kind: str) -> None:
    """Run from a checkout, the documents that people edit are the ones used."""
    if not (CHECKOUT / kind / "README.md").is_file():
        pytest.skip(f"{kind}/ has no reference yet")

    assert root(kind) == CHECKOUT / kind


def test_a_wheel_finds_what_it_carries(tmp_path: Path) -> None:
    """Installed without a checkout around it, the package finds its own copy."""
    package = _package(tmp_path, bundled="wheel")

    assert _found(tmp_path) == [str(package / "_bundled" / "policies"), "wheel"]


def test_a_folder_beside_an_installed_package_is_no_checkout(tmp_path: Path) -> None:
    """A foreign folder called `policies` beside the package is not taken for ours."""
    package = _package(tmp_path, bundled="wheel")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "x.toml").write_text("foreign")
    (tmp_path / "policies" / "README.md").write_text("")

    assert _found(tmp_path) == [str(package / "_bundled" / "policies"), "wheel"]


def test_a_checkout_wins_over_the_copy_in_the_package(tmp_path: Path) -> None:
    """An editable install leaves a copy in the package, which would be stale."""
    _package(tmp_path, bundled="stale")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "x.toml").write_text("edited")
    (tmp_path / "policies" / "README.md").write_text("")
    (tmp_path / "pyproject.toml").write_text("")

    assert _found(tmp_path) == [str(tmp_path / "policies"), "edited"]
