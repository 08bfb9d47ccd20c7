"""What the virtual shell sees in its own way."""

from collections.abc import Mapping

import pytest
from bashkit import Bash

from verifierd.predictors.shell.traps import trap


def _trap(
    command: str, *, linked: bool = False, stacked: bool = False, variables: Mapping[str, str] | None = None
) -> str | None:
    return trap(
        Bash().analyze(command),
        command,
        "/p/here",
        is_folder=lambda path: path == "/p/here/d",
        is_fresh=lambda _path: False,
        has_mode=lambda path: path == "/p/here/mine",
        linked=linked,
        stacked=stacked,
        variables=variables or {},
    )


@pytest.mark.parametrize(
    "command",
    [
        "cp x nodir/",
        "touch x && mv x nodir/",
        "pwd -P",
        "cd -P d",
        "realpath x",
        "readlink -f x",
        "wc /dev/null",
        "rm -r ../here && pwd",
        "rm -rf ..",
        "popd; cd -",
        "echo $((08 + 1))",
        "awk 'BEGIN { print substr(\"hello\", 0, 2) }'",
        "cat nodir/../x",
        "cat packages/*/src/x.ts",
        "for d in */; do echo $d; done",
        "echo *.{txt,log}",
        "ls {src,lib}/*.py",
        "mv *.txt old",
        "[ -x run.sh ] && ./run.sh",
        "[[ -f a && -x run.sh ]] && echo y",
    ],
)
def test_traps(command: str) -> None:
    """Each of these has answers that no world shows."""
    assert _trap(command) is not None


@pytest.mark.parametrize(
    "command",
    [
        "cp x d/",
        "mkdir -p new && cp x new/",
        "sed -i 's/a/b/' x",
        "readlink x",
        "wc -l x",
        "rm -r sub",
        "cd .. && pwd",
        "echo $((8 + 1))",
        "cat ../x",
        "cat *.txt",
        "cat > x.c <<'EOF'\nint main() { /* TODO */ }\nEOF",
        "echo 'a * b/c'",
        "echo {a,b}.txt *",
        "mv *.txt d",
    ],
)
def test_plain(command: str) -> None:
    """What only looks like a trap is none."""
    assert _trap(command) is None


def test_traps_of_the_session() -> None:
    """What happened before makes some commands doubtful."""
    assert _trap("cat ../x", linked=True) is not None
    assert _trap("cd -", stacked=True) is not None
    assert _trap("echo $((m + 1))", variables={"m": "010"}) is not None
    assert _trap("echo $((m + 1))", variables={"m": "10"}) is None
