"""The predictor as the pipeline uses it: histories in, predictions out."""

import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import anyio
import msgspec
import pytest

from verifierd.errors import PredictorError
from verifierd.predictors.shell import ShellPredictor
from verifierd.predictors.shell.process import WorkerProcess
from verifierd.types import Abstain, Action, History, ObservationKind, Origin, Prediction, Step

CWD = "/home/someone/work"
BOMB = """e='eval "$e"'; eval "$e\""""
SESSIONS = [
    ["echo one > a.txt", "cat a.txt", "echo two >> a.txt", "wc -l a.txt", "cat a.txt", "rm a.txt", "cat a.txt"],
    ["mkdir inner", "cd inner", "pwd", "echo x > f", "ls", "cd ..", "ls inner", "rm -r inner", "ls inner"],
    ["N=7", "echo $N", "N=$((N + 1))", "echo $N > n.txt", "cat n.txt", "echo $((N * N))", "echo done"],
    ["printf '%s\\n' pear fig plum > w.txt", "sort w.txt", "grep -n i w.txt", "head -n 1 w.txt", "tail -n 1 w.txt"],
    [
        "cat > c.csv <<'EOF'\na,1\nb,2\nc,3\nEOF",
        "cut -d, -f1 c.csv",
        "sed -n 2p c.csv",
        "sed -i s/b/B/ c.csv",
        "cat c.csv",
    ],
    ["mkdir d && echo 1 > d/x", "cp d/x d/y", "cat d/y", "mv d/y d/z", "ls d", "cat d/y"],
    [
        "[ -f nope.txt ] && echo yes || echo no",
        "[ -f nope.txt ] && echo yes || echo no",
        "true && echo t",
        "false; echo $?",
    ],
    ["touch e.txt", "wc -c < e.txt", "echo hello > e.txt", "tr a-z A-Z < e.txt", "rev e.txt", "cat e.txt e.txt"],
    ["for i in 1 2 3; do echo $i; done", "seq 3 | paste -sd+", "expr 2 + 3", "echo a b c | wc -w", "basename /x/y.z"],
    ["echo v > one", "ln -s one two", "cat two", "readlink two", "rm one", "cat two", "ls two"],
]


def step(
    command: str, observation: str = "", exit_code: int | None = 0, *, trajectory: str = "t", cwd: str | None = CWD
) -> Step:
    return Step(
        format="native",
        trajectory=trajectory,
        index=1,
        action=Action(tool="bash", command=command),
        observation=observation,
        exit_code=exit_code,
        cwd=cwd,
        origin=Origin(path="x", offset=0),
    )


def contradicts(prediction: Prediction, real: Step) -> bool:
    if prediction.text is None:
        return False
    return (prediction.text.rstrip(), prediction.exit_code) != (real.observation.rstrip(), real.exit_code)


@pytest.fixture
async def shell() -> AsyncIterator[ShellPredictor]:
    predictor = ShellPredictor()
    yield predictor
    await predictor.aclose()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[list[Step]]:
    """What real bash answers to the sessions above, one `bash -c` a step with directory and variables carried over."""
    return [list(_record(commands, tmp_path_factory.mktemp("work"))) for commands in SESSIONS]


def _record(commands: list[str], home: Path) -> Iterator[Step]:
    cwd, state = home, home.parent / f"{home.name}.state"
    state.write_text("")
    for index, command in enumerate(commands, 1):
        script = f"source {state}; trap 'declare -p N > {state} 2>/dev/null; pwd > {state}.cwd' EXIT; eval \"$1\""
        done = subprocess.run(
            ["bash", "-c", script, "bash", command],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            text=True,
            check=False,
        )
        yield msgspec.structs.replace(step(command, done.stdout, done.returncode, cwd=str(cwd)), index=index)
        cwd = Path(Path(f"{state}.cwd").read_text().strip())


async def play(shell: ShellPredictor, steps: Sequence[Step], name: str) -> list[tuple[Step, Prediction]]:
    history, played = History(("native", name)), []
    for real in steps:
        played.append((real, await shell.predict(history, real)))
        history.append(real)
    return played


@pytest.mark.anyio
async def test_what_was_written_is_read(shell: ShellPredictor) -> None:
    """A file that the session wrote is predicted to hold just that, with status 0 and certainty."""
    history = History(("native", "t"))
    history.append(step("echo hi > a.txt"))
    prediction = await shell.predict(history, step("cat a.txt"))
    assert prediction == Prediction(predictor="shell", text="hi\n", exit_code=0, certain=True)


@pytest.mark.anyio
async def test_the_unknown_is_not_guessed(shell: ShellPredictor) -> None:
    """Files, directories and variables that nobody showed are abstained from, with the reason."""
    for command in ("cat b.txt", "ls", "echo $TERM", "[ -d src ] && echo yes", "ls *.md", "grep -c x y.txt", "cd; pwd"):
        prediction = await shell.predict(History(("native", command)), step(command))
        assert (prediction.text, prediction.abstain) == (None, Abstain.UNPREDICTABLE), command
        assert prediction.detail


@pytest.mark.anyio
async def test_real_bash_agrees(shell: ShellPredictor, recorded: list[list[Step]]) -> None:
    """On sessions recorded from the bash of this machine every decided step is right, and most are decided."""
    played = [pair for number, steps in enumerate(recorded) for pair in await play(shell, steps, f"s{number}")]
    assert [(real.action.text, real.observation, p.text) for real, p in played if contradicts(p, real)] == []
    assert sum(p.text is not None for _, p in played) > len(played) * 0.6


@pytest.mark.anyio
async def test_one_fault_does_not_cascade(shell: ShellPredictor, recorded: list[list[Step]]) -> None:
    """After any one falsified observation at most one untouched later step is contradicted."""
    rand = random.Random(11)
    for number, steps in enumerate(recorded):
        for fault, text in _faults(steps, recorded, rand):
            altered = [*steps]
            altered[fault] = msgspec.structs.replace(steps[fault], observation=text)
            played = await play(shell, altered, f"s{number} {fault} {text}")
            later = [real.action.text for real, p in played[fault + 1 :] if contradicts(p, real)]
            assert len(later) <= 1, (steps[fault].action.text, text, later)
            assert not any(contradicts(p, real) for real, p in played[:fault])


@pytest.mark.anyio
async def test_every_visible_change_of_a_decided_step_is_seen(
    shell: ShellPredictor, recorded: list[list[Step]]
) -> None:
    """Whatever visible character of a decided observation is changed, the prediction differs from it."""
    for number, steps in enumerate(recorded):
        for place, real in enumerate(steps):
            for at in range(min(len(real.observation), 12)):
                if real.observation[at].isspace():
                    continue
                text = real.observation[:at] + "¶" + real.observation[at + 1 :]
                history = History(("native", f"{number} {place} {at}"))
                for earlier in steps[:place]:
                    history.append(earlier)
                false = msgspec.structs.replace(real, observation=text)
                prediction = await shell.predict(history, false)
                assert prediction.text is None or contradicts(prediction, false)


def _faults(steps: list[Step], others: list[list[Step]], rand: random.Random) -> Iterator[tuple[int, str]]:
    for place, real in enumerate(steps):
        text = real.observation
        lines = text.splitlines(keepends=True)
        foreign = rand.choice(rand.choice(others)).observation
        forms = [foreign, ""]
        if lines:
            cut = rand.randrange(len(lines))
            forms += ["".join(lines[:cut] + lines[cut + 1 :])]
        visible = [at for at, character in enumerate(text) if not character.isspace()]
        if visible:
            at = rand.choice(visible)
            forms += [text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :]]
        yield from ((place, form) for form in forms if form.rstrip() != text.rstrip())


@pytest.mark.anyio
async def test_prediction_does_not_look_at_the_observation(shell: ShellPredictor) -> None:
    """The same history and action give the same prediction whatever the observation says."""
    history = History(("native", "t"))
    history.append(step("echo hi > a.txt"))
    answers = [await shell.predict(history, step("cat a.txt", text, code)) for text, code in (("", 0), ("lie", 9))]
    assert answers[0] == answers[1]


@pytest.mark.anyio
async def test_reality_replaces_what_it_contradicts(shell: ShellPredictor) -> None:
    """After a contradicted read, the file holds what was read, and what else followed from the old state is unknown."""
    history = History(("native", "t"))
    for real in (step("echo hi > a.txt"), step("echo 1 > b.txt"), step("cat a.txt", "changed\n")):
        history.append(real)
    assert (await shell.predict(history, step("cat a.txt"))).text == "changed\n"
    assert (await shell.predict(history, step("cat b.txt"))).text is None


@pytest.mark.anyio
async def test_bomb_is_not_even_run(shell: ShellPredictor) -> None:
    """The allow-list refuses a script that evaluates itself."""
    assert (await shell.predict(History(("native", "t")), step(BOMB))).abstain is Abstain.UNPREDICTABLE


@pytest.mark.anyio
async def test_bomb_costs_one_abstention(shell: ShellPredictor, tmp_path: Path) -> None:
    """A script that kills the worker is abstained from; the next step here and elsewhere is predicted."""
    script = tmp_path / "worker.py"
    script.write_text(
        "from verifierd.predictors.shell import worker\n"
        "from verifierd.predictors.shell.envelope import Envelope\n"
        "from verifierd.predictors.shell.worlds import Session\n"
        "Envelope.refuse_command = lambda *given, **named: None\n"
        "Session._weighs_the_unknown = lambda *given, **named: False\n"
        "worker.main()\n"
    )
    shell._worker = WorkerProcess(shell._worker._document.decode(), [sys.executable, str(script)])
    here, there = History(("native", "here")), History(("native", "there"))
    there.append(step("echo hi > a.txt"))
    assert (await shell.predict(there, step("cat a.txt"))).text == "hi\n"
    bomb = step(BOMB, "Segmentation fault\n", 139)
    hostile = await shell.predict(here, bomb)
    assert (hostile.abstain, hostile.detail) == (Abstain.PREDICTOR_ERROR, "the virtual shell crashed")
    here.append(bomb)
    assert (await shell.predict(here, step("echo ok"))).text == "ok\n"
    assert (await shell.predict(there, step("cat a.txt"))).text == "hi\n"
    unseen = History(("native", "unseen"))
    for real in (step("echo 1"), bomb, step("echo 2 > b.txt")):
        unseen.append(real)
    assert (await shell.predict(unseen, step("cat b.txt"))).text == "2\n"


@pytest.mark.anyio
async def test_dead_worker_is_replaced(shell: ShellPredictor) -> None:
    """When the worker dies between two steps, the state is rebuilt from the history and the step is predicted."""
    history = History(("native", "t"))
    history.append(step("echo hi > a.txt"))
    assert (await shell.predict(history, step("cat a.txt"))).text == "hi\n"
    process = shell._worker._process
    assert process is not None
    process.kill()
    await process.wait()
    assert (await shell.predict(history, step("cat a.txt"))).text == "hi\n"


@pytest.mark.anyio
async def test_hang_is_ended(shell: ShellPredictor) -> None:
    """A worker that misses the deadline is killed, and that step is a timeout; the next is predicted."""
    shell._deadline = 0.0
    history = History(("native", "t"))
    first = await shell.predict(history, step("echo slow"))
    assert (first.text, first.abstain) == (None, Abstain.TIMEOUT)
    shell._deadline = 5.0
    history.append(step("echo slow", "slow\n"))
    assert (await shell.predict(history, step("echo next"))).text == "next\n"


@pytest.mark.anyio
async def test_hostile_commands_do_no_harm(shell: ShellPredictor) -> None:
    """Loops, floods, bombs, huge and malformed texts are answered without a prediction, and work goes on."""
    hostile = [
        "while true; do :; done",
        "yes",
        "yes | head -c 999999999",
        ":(){ :|:& };:",
        "seq 1 99999999",
        "echo " + "x" * 1_000_000,
        "echo a\0b",
        "echo \ud800",
        "cat <<EOF",
        "$(" * 200,
        "((((((((((((((((",
        "printf '%0999999999d' 1",
        "x=a; while true; do x=$x$x; done",
        "",
    ]
    history = History(("native", "t"))
    for command in hostile:
        prediction = await shell.predict(history, step(command))
        assert prediction.text is None, command[:40]
        history.append(step(command, "\ud800 \0 " + "y" * 2_000_000, 1))
    assert (await shell.predict(history, step("echo still here"))).text == "still here\n"


@pytest.mark.anyio
async def test_a_log_may_have_any_name(shell: ShellPredictor) -> None:
    """Also one that is no Unicode."""
    named = msgspec.structs.replace(step("echo hi"), origin=Origin(path="a\udcff.jsonl", offset=0))
    assert (await shell.predict(History(("native", "t")), named)).text == "hi\n"


@pytest.mark.anyio
async def test_cancelled_call_leaves_the_next_one_alone(shell: ShellPredictor) -> None:
    """A prediction cancelled half-way does not hand its answer to another step."""
    history = History(("native", "t"))
    await shell.predict(history, step("echo warm"))
    for delay in (0.0, 0.0005, 0.001):
        with anyio.move_on_after(delay):
            await shell.predict(history, step("seq 2000"))
        assert (await shell.predict(history, step("echo mine"))).text == "mine\n"


@pytest.mark.anyio
async def test_many_trajectories_at_once(shell: ShellPredictor) -> None:
    """Concurrent calls for different trajectories each get their own answer."""
    answers: dict[int, str | None] = {}

    async def one(number: int) -> None:
        history = History(("native", f"t{number}"))
        history.append(step(f"echo {number} > a.txt"))
        answers[number] = (await shell.predict(history, step("cat a.txt"))).text

    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(one, number)
    assert answers == {number: f"{number}\n" for number in range(40)}


@pytest.mark.anyio
async def test_closed_predictor_abstains() -> None:
    """After closing, predictions are abstentions, not exceptions, and no process is left."""
    shell = ShellPredictor()
    history = History(("native", "t"))
    await shell.predict(history, step("echo hi"))
    process = shell._worker._process
    assert process is not None
    await shell.aclose()
    assert process.returncode is not None
    assert (await shell.predict(history, step("echo hi"))).abstain is Abstain.PREDICTOR_ERROR


@pytest.mark.anyio
async def test_dropped_history_means_unknown_state(shell: ShellPredictor) -> None:
    """What was written in steps that the history no longer holds is not known."""
    history = History(("native", "t"), limit=900)
    history.append(step("echo hi > a.txt"))
    for _ in range(8):
        history.append(step("echo " + "x" * 100, "x" * 100 + "\n"))
    assert history.dropped
    assert (await shell.predict(history, step("cat a.txt"))).text is None


@pytest.mark.anyio
async def test_parallel_siblings(shell: ShellPredictor) -> None:
    """A step with a sibling that may write is racy; among readers it is predicted from the state before the batch."""
    history = History(("native", "t"))
    history.append(step("echo hi > a.txt"))

    def member(command: str, *siblings: str, known: bool = True) -> Step:
        actions = tuple(Action(tool="bash", command=text) for text in siblings)
        return msgspec.structs.replace(step(command), batch="b", siblings=actions if known else None)

    assert (await shell.predict(history, member("cat a.txt", "echo x > a.txt"))).abstain is Abstain.RACY
    assert (await shell.predict(history, member("cat a.txt", known=False))).abstain is Abstain.RACY
    assert (await shell.predict(history, member("cat a.txt", "wc -l a.txt"))).text == "hi\n"
    history.append(member("echo no > a.txt"))
    assert (await shell.predict(history, member("cat a.txt", "wc -l a.txt"))).text == "hi\n"
    assert (await shell.predict(history, step("cat a.txt"))).text == "no\n"


@pytest.mark.anyio
async def test_only_commands_and_answers_of_the_environment(shell: ShellPredictor) -> None:
    """Other tools and observations that are not the environment's are abstained from."""
    history = History(("native", "t"))
    tool = msgspec.structs.replace(step(""), action=Action(tool="Read", input={"file_path": "/a"}))
    assert (await shell.predict(history, tool)).abstain is Abstain.UNPREDICTABLE
    denied = msgspec.structs.replace(step("echo hi"), observation_kind=ObservationKind.POLICY_DENIED)
    assert (await shell.predict(history, denied)).abstain is Abstain.NOT_ENV


def test_unknown_profile() -> None:
    """A profile that does not exist is refused with the list of those that do."""
    with pytest.raises(PredictorError) as caught:
        ShellPredictor(profile="fish")
    assert "portable" in caught.value.hint


@pytest.mark.shared
@pytest.mark.anyio
async def test_shared_recordings(shell: ShellPredictor, shared: Path) -> None:
    """On the team's recordings nothing decided is wrong, and half of the steps are decided from an unknown start."""
    played = [pair for name, steps in _shared(shared).items() for pair in await play(shell, steps, name)]
    assert [(real.trajectory, real.action.text) for real, p in played if contradicts(p, real)] == []
    assert sum(p.text is not None for _, p in played) >= len(played) * 0.5


@pytest.mark.shared
@pytest.mark.anyio
async def test_shared_recordings_do_not_cascade(shell: ShellPredictor, shared: Path) -> None:
    """Over the team's recordings, too, one fault contradicts at most one untouched later step."""
    rand = random.Random(5)
    sessions = list(_shared(shared).values())
    for number in range(300):
        steps = rand.choice(sessions)
        fault, text = rand.choice(list(_faults(steps, sessions, rand)))
        altered = [*steps]
        altered[fault] = msgspec.structs.replace(steps[fault], observation=text)
        played = await play(shell, altered, f"{number}")
        later = [real.action.text for real, p in played[fault + 1 :] if contradicts(p, real)]
        assert len(later) <= 1, (steps[fault].trajectory, fault, text, later)


def _shared(shared: Path) -> dict[str, list[Step]]:
    sessions: dict[str, list[Step]] = {}
    for line in (shared / "recorded" / "terminal.jsonl").read_text().splitlines():
        row = json.loads(line)
        real = step(row["action"], row["observation"], row["exit_code"], cwd=row["cwd"])
        sessions.setdefault(row["trajectory"], []).append(msgspec.structs.replace(real, trajectory=row["trajectory"]))
    return sessions
