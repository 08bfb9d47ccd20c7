"""Random sessions in directories that the predictor has never seen, held against real bash."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

from verifierd import bundled
from verifierd.predictors.shell.envelope import Envelope
from verifierd.predictors.shell.profile import Profile
from verifierd.predictors.shell.sight import Effect, Sight
from verifierd.predictors.shell.worlds import Session
from verifierd.types import ObservationKind

NAMES = ["a", "b", "c.txt", "d.md", "src", "src/m.py", "src/n", "lib", "lib/c.txt", "x y", "Makefile", ".env", "README"]
TEXTS = ["foo", "bar", "TODO", "x=1", "import os", "hello world"]
COMMANDS = [
    "cat {f}", "ls", "ls {f}", "head -n 1 {f}", "tail -n 2 {f}", "wc -l {f}", "wc -l < {f}", "grep {w} {f}",
    "grep -c {w} {f}", "grep -rn {w} . | sort", "grep -q {w} {f} && echo found", "echo {w} > {t}", "echo {w} >> {t}",
    "rm {f}", "rm -f {f}", "rm -rf {f}", "cp {f} {g}", "cp -r {f} {g}", "mv {f} {g}", "ln -s {f} {g}",
    "[ -f {f} ] && echo yes || echo no", "[ -d {f} ] && echo yes || echo no", "test -e {f}; echo $?",
    "[ -s {f} ] && echo full", "[ -L {f} ] && echo link", "find . -type f | sort", "find . -name '*.txt' | sort",
    "find {f} | sort", "find . -type f | wc -l", "ls | wc -l", "cd {f}", "cd ..", "pwd",
    "cat {f} 2>/dev/null || echo none", "sed -i s/o/0/ {f}", "sed -n 1p {f}", "sort {f}",
    "for i in 1 2; do echo $i > f$i; done", "cat f1", "for f in *; do echo $f; done", "rmdir {f}", "readlink {f}",
    "cat {f} {g}", "diff {f} {g}", "if [ -f {f} ]; then cat {f}; else echo missing; fi", "cut -c1-3 {f}", "rev {f}",
    "mkdir {d} && touch {d}/z", "tr a-z A-Z < {f}", "cp {f} {g} && cat {g}", "mv {f} {g}; ls", "nl {f}",
    'while read l; do echo "[$l]"; done < {f}', "cat {t} | wc -w", "ls -1 {f} 2>/dev/null", "uniq {f}",
]  # fmt: skip


def test_nothing_decided_is_wrong(tmp_path: Path) -> None:
    """Over random commands on unknown files, directories and links, whatever is decided is what bash answers."""
    envelope = Envelope.load((bundled.root("policies") / "shell" / "gnu.toml").read_text())
    wrong, decided = [], 0
    for number in range(60):
        rand = random.Random(number)
        home = tmp_path / str(number)
        _furnish(home, rand)
        session = Session(envelope, Profile("auto", "native"))
        for command, cwd, observation, exit_code in _play(home, tmp_path, rand):
            sight = Sight("native", Effect("shell", command), ObservationKind.ENV, cwd, None, ())
            answer = session.predict(sight)
            if answer.text is not None:
                decided += 1
                if (answer.text.rstrip(), answer.exit_code) != (observation.rstrip(), exit_code):
                    wrong.append((number, command, observation, answer.text))
            session.observe(Sight(*_fields(sight), observation, exit_code))
    assert wrong == []
    assert decided > 40


def _fields(sight: Sight) -> tuple[str, Effect, ObservationKind, str | None, str | None, tuple[Effect, ...] | None]:
    return sight.format, sight.effect, sight.kind, sight.cwd, sight.turn, sight.siblings


def _furnish(home: Path, rand: random.Random) -> None:
    home.mkdir()
    for name in rand.sample(NAMES, rand.randrange(9)):
        path = home / name
        path.parent.mkdir(exist_ok=True)
        if name in {"src", "lib"}:
            path.mkdir(exist_ok=True)
        elif rand.random() < 0.85:
            path.write_text("\n".join(rand.choices(TEXTS, k=rand.randrange(4))) + rand.choice(["\n", ""]))
        else:
            path.symlink_to(rand.choice(["a", "c.txt", "nowhere"]) if name not in {"a", "c.txt"} else "README")


def _play(home: Path, scratch: Path, rand: random.Random) -> Iterator[tuple[str, str, str, int]]:
    cwd, place = home, scratch / "cwd"
    for _ in range(rand.randrange(4, 10)):
        words = [f"'{name}'" if " " in name else name for name in (rand.choice(NAMES), rand.choice(NAMES))]
        command = rand.choice(COMMANDS).format(
            f=words[0],
            g=words[1],
            w=f"'{rand.choice(TEXTS)}'",
            t=rand.choice(["c.txt", "d.md", "new.py"]),
            d=rand.choice(["new", "k"]),
        )
        done = subprocess.run(
            ["bash", "-c", f"trap 'pwd > {place}' EXIT; eval \"$1\"", "bash", command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            check=False,
        )
        yield command, str(cwd), done.stdout.decode(errors="replace"), done.returncode
        cwd = Path(place.read_text().rstrip("\n"))
