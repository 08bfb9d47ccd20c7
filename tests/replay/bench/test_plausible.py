"""The suite `plausible`: what is of the right form, and what is not."""

import shutil
import subprocess
from collections.abc import Sequence

import anyio
import pytest

from tests.replay.bench.answerers import FAILURES, Answerer, asked_party
from verifierd.composition import Choice
from verifierd.replay.bench.asking import Outcome
from verifierd.replay.bench.figures import value
from verifierd.replay.bench.forms import FORMS
from verifierd.replay.bench.plausible import Plausible
from verifierd.replay.bench.suite import Request
from verifierd.stages import Message

GOOD = {
    "ls": (
        "total 12\ndrwxr-xr-x 2 user user 4096 Jan  3 10:15 .\ndrwxr-xr-x 5 user user 4096 Jan  3  2025 ..\n"
        "-rw-r--r-- 1 user user  120 Jan  3 10:15 README.md"
    ),
    "git": "1a2b3c4 (HEAD -> main) Fix the parser\n9f8e7d6 Begin",
    "ps": (
        "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
        "root           1  0.0  0.1 167744 11872 ?        Ss   Jan02   0:03 /sbin/init"
    ),
    "status": "On branch main\nYour branch is up to date with 'origin/main'.\n\nnothing to commit, working tree clean",
    "df": "Filesystem      Size  Used Avail Use% Mounted on\n/dev/sda1        50G   21G   27G  44% /",
    "free": (
        "               total        used        free      shared  buff/cache   available\n"
        "Mem:            7951        2310        1020         120        4620        5200\n"
        "Swap:           2047           0        2047"
    ),
    "uname": "Linux host 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01) x86_64 GNU/Linux",
    "date": "Mon Jan 12 09:00:00 UTC 2026",
    "env": "SHELL=/bin/bash\nHOME=/home/user\nPATH=/usr/local/bin:/usr/bin:/bin",
    "id": "uid=1000(user) gid=1000(user) groups=1000(user),27(sudo)",
    "uptime": " 10:15:01 up 3 days,  2:04,  1 user,  load average: 0.08, 0.03, 0.01",
    "du": "5.1M\t/etc\n1.2G\t/var/log",
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_of_the_form(name: str) -> None:
    """A usual output is; nothing, talk, the command itself, a cut line and another command's output are not."""
    form = FORMS[name]
    assert form.wrong(GOOD[name]) == ""
    assert form.wrong(f"{GOOD[name]}\n") == ""
    others = [text for other, text in GOOD.items() if other != name]
    for text in ("", "Sure! Here is the output:", form.command, f"{GOOD[name]}\nDone, as you asked!", *others):
        assert form.wrong(text), text


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if shutil.which(form.command.split()[0])])
def test_real_outputs_are_of_the_form(name: str) -> None:
    """What this machine's own programs print is."""
    form = FORMS[name]
    if form.before is not None:
        pytest.skip("needs a repository")
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(form.command.split(), capture_output=True, text=True, check=False, env=environment)
    assert form.wrong(done.stdout) == ""


def test_answers_are_judged_by_form() -> None:
    """Of each command and in all; a wrong form says what is wrong, no output is an outcome of its own."""
    said = {"ls": GOOD["ls"], "git": "nothing like it", "ps": ""}

    def rule(messages: Sequence[Message]) -> tuple[str, str, str]:
        name = next(name for name in said if f'"{FORMS[name].command}\\n"' in messages[-1].content)
        return f"**Environment Observation:**\n{said[name]}", "", "stop"

    parameters = {"max-tokens": 100, "commands": ["ls", "git", "ps"], "runs": 2}
    engine = Plausible(Request(parameters=parameters, choice=Choice(), runs=None, seed=0, say=print))
    answerer = Answerer(rule)

    async def all_jobs() -> list[tuple[Outcome, str]]:
        rows = [row for job in engine.jobs for row in await engine.run(job, asked_party(answerer))]
        figures = {name: value(figure) for name, figure in engine.figures(rows).items()}
        assert figures["form"] == figures["form_published"] == pytest.approx(1 / 3)
        assert (figures["form_ls"], figures["form_git"], figures["form_ps"]) == (1, 0, 0)
        assert (figures["runs_agree"], figures["steps"]) == (1, 6)
        assert figures["empty"] == pytest.approx(1 / 3)
        assert "exact" not in figures
        return [(row.outcome, row.detail) for row in rows[::2]]

    ls, git, ps = anyio.run(all_jobs)
    assert ls == (Outcome.ANSWERED, "")
    assert git == (Outcome.ANSWERED, "line 1 is none that `git log --oneline -5` prints")
    assert ps == (Outcome.EMPTY, "no output")
    assert "true" in answerer.talks[2][2].content  # the history shows that there is a repository


@pytest.mark.parametrize("outcome", FAILURES)
def test_failures_are_told_apart(outcome: str) -> None:
    """A model that breaks its role, is cut, thinks or says nothing is called so, and is of no form."""
    parameters = {"max-tokens": 100, "commands": ["uname"], "runs": 1}
    engine = Plausible(Request(parameters=parameters, choice=Choice(), runs=None, seed=0, say=print))

    (row,) = anyio.run(engine.run, "uname/0", asked_party(Answerer(FAILURES[outcome])))

    assert row.outcome.value == outcome
    assert value(engine.figures([row])["form"]) == 0
