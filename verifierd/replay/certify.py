"""Certifies the virtual shell against this machine's bash, and writes the document of what may be trusted.

    python -m verifierd.replay.certify --out policies/shell/gnu.toml
    python -m verifierd.replay.certify --out policies/shell/gnu.toml --check --sample 500

Every case is run in both. A unit (see `verifierd.predictors.shell.units`) is listed if at least `MINIMUM` cases with it
matched in text, status, files and directory, and if no case that is made of listed units alone did not match.
"""

import argparse
import os
import re
import shutil
import stat
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import msgspec

from verifierd.commandline.reading import Unread
from verifierd.predictors.shell.envelope import Envelope, template
from verifierd.predictors.shell.units import units
from verifierd.replay.bash import RealBash
from verifierd.replay.cases import Case, cases
from verifierd.replay.virtual import VirtualBash

__all__ = ("MINIMUM", "Trial", "judge", "main", "render", "trials")

MINIMUM = 4
SEED = 20
_TOOLS = ("sed", "grep", "find", "awk", "jq", "diff", "tar", "bc")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A case that was run in both shells.

    Attributes:
        case: What was run.
        keys: Its units, and the templates of its error messages as `message: ...`.
        agrees: True if nothing differs.
        difference: What differs, for people.
    """

    case: Case
    keys: frozenset[str]
    agrees: bool
    difference: str = ""


def trials(chosen: Iterable[Case], envelope: Envelope) -> Iterator[Trial]:
    """Run cases; left out are those whose script or outcome the envelope refuses, and those whose tools are not here.

    Args:
        chosen: The cases.
        envelope: What to refuse by; an open one (`Envelope(None, None)`) refuses only what is not understood.
    """
    with RealBash(home=None, fresh=True) as real, VirtualBash() as virtual:
        project = str(real.project)
        for case in chosen:
            try:
                used = units(case.command).used
            except Unread:
                continue
            if not envelope.certifies(used) or not _present(used):
                continue
            ours = virtual.run(case.command, case.tree, project)
            if ours.opaque or ours.broken is not None:
                continue
            stderr = envelope.repair(ours.stderr, project)
            if envelope.refuse_outcome(case.command, ours.stdout, stderr, collated=True, look=ours.tree.get):
                continue
            _plant(real, case)
            theirs = real.run(case.command)
            after, modes = _tree(real.project)
            keys = used | {f"message: {template(line)}" for line in stderr.splitlines()}
            text = ours.text if "2>" not in case.command and not ours.stderr else envelope.repair(ours.text, project)
            pairs = {
                "text": (text, theirs.text),
                "status": (ours.exit_code, theirs.exit_code),
                "directory": (ours.cwd, theirs.cwd),
                "files": (_but_archives(ours.tree), _but_archives(after)),
                "modes": (ours.modes, modes),
            }
            differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
            yield Trial(
                case=case,
                keys=frozenset(keys),
                agrees=not differing,
                difference="; ".join(_show(name, *pair) for name, pair in differing.items()),
            )


def judge(tried: Sequence[Trial], minimum: int = MINIMUM) -> tuple[Counter[str], dict[str, Trial]]:
    """Which keys are certified, with their number of matches; and which were struck, each with the trial that did it.

    Where a trial does not match, the key with the worst record among its keys is struck, until every such trial holds
    a key that is not certified.
    """
    matches: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    for trial in tried:
        (matches if trial.agrees else misses).update(trial.keys)
    certified = {key for key, count in matches.items() if count >= minimum}
    struck: dict[str, Trial] = {}
    open_ = [trial for trial in tried if not trial.agrees and trial.keys <= certified]
    while open_:
        candidates = {key for trial in open_ for key in trial.keys}
        worst = max(candidates, key=lambda key: (misses[key] / (misses[key] + matches[key]), -matches[key], key))
        struck[worst] = next(trial for trial in open_ if worst in trial.keys)
        certified.discard(worst)
        open_ = [trial for trial in open_ if worst not in trial.keys]
    return Counter({key: matches[key] for key in certified}), struck


def render(certified: Counter[str], tools: Sequence[str], seed: int, tried: int) -> str:
    """The document (TOML); its format is described in policies/shell/README.md."""
    groups: dict[str, dict[str, int]] = defaultdict(dict)
    messages: dict[str, dict[str, int]] = defaultdict(dict)
    for key, count in certified.items():
        kind, _, rest = key.partition(": ")
        if kind == "message":
            name, _, text = rest.partition(": ")
            messages[name][text] = count
        else:
            groups[kind][rest] = count
    lines = [
        "# What the virtual shell is trusted with: see README.md. Written by `python -m verifierd.replay.certify`.",
        f'bashkit = "{version("bashkit")}"',
        f'date = "{datetime.now(UTC):%Y-%m-%d}"',
        f"minimum = {MINIMUM}",
        f"seed = {seed}",
        f"trials = {tried}",
        "tools = [",
        *(f"  {_quote(tool)}," for tool in tools),
        "]",
    ]
    shapes: dict[str, dict[str, int]] = defaultdict(dict)
    for unit, count in groups.pop("command", {}).items():
        form, _, shape = unit.rpartition(" | ")
        shapes[form][shape] = count
    lines += ["", "[units.command]"]
    for form in sorted(shapes):
        counts = ", ".join(f"'{shape}' = {count}" for shape, count in sorted(shapes[form].items()))
        lines.append(f"{_quote(form)} = {{ {counts} }}")
    for title, part in (("units", groups), ("messages", messages)):
        for name in sorted(part):
            lines += ["", f"[{title}.{_quote(name)}]"]
            lines += [f"{_quote(text)} = {count}" for text, count in sorted(part[name].items())]
    return "\n".join(lines) + "\n"


def tools() -> list[str]:
    """The versions of the real tools, one line each."""
    found = []
    for name in ("bash", "ls", *_TOOLS):
        path = shutil.which(name)
        if path is None:
            continue
        flag = "-W" if name == "awk" and "mawk" in os.path.realpath(path) else "--version"
        words = [path, flag, "version"] if flag == "-W" else [path, flag]
        run = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603
        found.append(f"{name}: {(run.stdout or run.stderr).splitlines()[0]}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status: 1 if `--check` found a difference."""
    parser = argparse.ArgumentParser(prog="python -m verifierd.replay.certify", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the document to write, or to check")
    parser.add_argument("--sample", type=int, metavar="N", help="try N cases drawn at random only")
    parser.add_argument("--check", action="store_true", help="try the document's own cases and report differences")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--struck", type=Path, help="write what was struck, with the case that did it, to this file")
    options = parser.parse_args(arguments)
    chosen = cases(options.seed, options.sample)
    if options.check:
        envelope = Envelope.load(options.out.read_text(encoding="utf-8"))
        wrong = [trial for trial in trials(chosen, envelope) if not trial.agrees]
        for trial in wrong:
            sys.stdout.write(f"{trial.case.command!r}: {trial.difference}\n")
        return 1 if wrong else 0
    tried = list(trials(chosen, Envelope(None, None)))
    certified, struck = judge(tried)
    options.out.write_text(render(certified, tools(), options.seed, len(tried)), encoding="utf-8")
    if options.struck:
        text = "".join(f"{key}\n    {t.case.command!r}\n    {t.difference}\n" for key, t in sorted(struck.items()))
        options.struck.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(tried)} trials, {len(certified)} certified, {len(struck)} struck\n")
    return 0


_BUILTINS = frozenset(
    {"break", "cd", "continue", "exit", "export", "local", "read", "return", "set", "shift", "type", "unset", ":"}
)


@cache
def _is_present(name: str) -> bool:
    return name in _BUILTINS or shutil.which(name) is not None


def _present(used: Iterable[str]) -> bool:
    return all(_is_present(unit.split()[1]) for unit in used if unit.startswith("command: "))


def _plant(real: RealBash, case: Case) -> None:
    real.reset()
    for path, text in case.tree.items():
        full = real.project / path
        if text is None:
            full.mkdir(parents=True, exist_ok=True)
        elif text.startswith("-> "):
            full.symlink_to(text[3:])
        else:
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text, encoding="utf-8")
    real.own(real.home)


def _tree(project: Path) -> tuple[dict[str, str | None], dict[str, int]]:
    after: dict[str, str | None] = {}
    modes: dict[str, int] = {}
    for folder, folders, files in os.walk(project):
        for name in (*folders, *files):
            path = Path(folder, name)
            short = str(path.relative_to(project))
            if path.is_symlink():
                after[short] = f"-> {path.readlink()}"
                continue
            modes[short] = stat.S_IMODE(path.stat().st_mode)
            after[short] = None if path.is_dir() else path.read_bytes().decode("utf-8", "replace")
    return after, modes


def _but_archives(tree: dict[str, str | None]) -> dict[str, str | None]:
    """Archives hold times and owners, so only their being there is compared."""
    return {path: "" if re.search(r"\.(?:tar|tgz)$", path) else text for path, text in tree.items()}


def _show(name: str, ours: object, theirs: object) -> str:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted(key for key in {*ours, *theirs} if ours.get(key, 0) != theirs.get(key, 0))
        ours, theirs = {k: ours.get(k, "-") for k in keys}, {k: theirs.get(k, "-") for k in keys}
    return f"{name}: virtual {str(ours)[:160]!r}, real {str(theirs)[:160]!r}"


def _quote(text: str) -> str:
    return f"'{text}'" if "'" not in text and "\n" not in text else msgspec.json.encode(text).decode()


if __name__ == "__main__":
    sys.exit(main())
