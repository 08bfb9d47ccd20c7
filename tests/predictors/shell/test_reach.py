"""How far programs reach that are not run."""

import pytest
from bashkit import Bash

from verifierd.predictors.shell.reach import confined

_FILES = {
    "/p/pure.py": "import json, sys\nprint(json.dumps([1]), file=sys.stderr)\nprint(open('a').read())\n",
    "/p/writes.py": "open('a', 'w').write('x')\n",
    "/p/local.py": "import helper\nprint(helper.x)\n",
    "/p/sly.py": "getattr(__builtins__, 'op' + 'en')('a', 'w')\n",
    "/p/deep.py": "().__class__.__base__.__subclasses__()\n",
    "/p/broken.py": "def f(:\n",
}


def _reach(command: str, *, ours: bool = False) -> frozenset[str] | None:
    return confined(
        Bash().analyze(command), "/p", text=_FILES.get, ours=lambda _cwd: ours, harmless=lambda name: name == "echo"
    )


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("python3 pure.py", set()),
        ("python3 pure.py a b > out", {"/p/out"}),
        ("python3 -c 'print(6 * 7)'", set()),
        ("echo x; python3 pure.py", set()),
        ("gcc -Wall -o m m.c", {"/p/m"}),
        ("gcc m.c", {"/p/a.out"}),
        ("git init -q", {"/p/.git"}),
    ],
)
def test_confined(command: str, paths: set[str]) -> None:
    """A pure script writes nothing, a compiler its output, `git init` its own folder."""
    assert _reach(command) == frozenset(paths)


@pytest.mark.parametrize(
    "command",
    [
        "python3 writes.py",
        "python3 local.py",  # and leaves a __pycache__
        "python3 sly.py",
        "python3 deep.py",
        "python3 broken.py",
        "python3 unknown.py",
        "python3 -m json.tool a",
        'python3 "$SCRIPT"',
        "gcc -MD -o m m.c",
        "gcc -c m.c",
        "git init elsewhere",
        "git commit -m x",  # hooks of others may rewrite files
        "make",
        "echo x > $(name)",
        "f() { python3 pure.py; }; f",
    ],
)
def test_unconfined(command: str) -> None:
    """Whatever is not certain to stay within bounds may have written anything."""
    assert _reach(command) is None


def test_a_repository_of_our_own() -> None:
    """Where the session made the repository itself, committing touches no file of the tree."""
    assert _reach("git add . && git commit -m x", ours=True) == frozenset({"/p/.git"})
    assert _reach("git checkout main", ours=True) is None
