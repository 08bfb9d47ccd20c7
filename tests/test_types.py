"""The values that flow."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifierd.types import Action, History, Origin, Step, Verdict, VerdictKind, digest


def _step(index: int = 1, observation: str = "", **changed: Any) -> Step:
    step = Step(
        format="native",
        trajectory="t",
        index=index,
        action=Action(tool="bash", input="ls", command="ls"),
        observation=observation,
        origin=Origin(path="t.jsonl", offset=0),
    )
    return msgspec.structs.replace(step, **changed)


class TestAction:
    """What was asked."""

    @pytest.mark.parametrize(
        ("action", "text"),
        [
            (Action(tool="bash", input={"command": "ls"}, command="ls"), "ls"),
            (Action(tool="bash", input="raw", command=""), ""),
            (Action(tool="search", input="words"), "words"),
            (Action(tool="Read", input={"path": "é", "n": 1}), '{"path":"é","n":1}'),
            (Action(tool="none"), ""),
        ],
    )
    def test_text(self, action: Action, text: str) -> None:
        """The command line if there is one, else the input, as JSON if it is an object."""
        assert action.text == text


class TestStep:
    """A step and its identities."""

    def test_step_id_is_stable(self) -> None:
        """The same step has the same id in every process and release."""
        assert _step(observation="file\n").step_id == "2dc81ddc23fcf933ec8e02395b7ec083"

    def test_step_id_depends_on_what_happened_only(self) -> None:
        """Where and when it was read, and how it was labelled, do not change the identity."""
        same = _step(
            origin=Origin(path="copy.jsonl", offset=9),
            observed_at="2026-01-01T00:00:00Z",
            exit_code=1,
            label=VerdictKind.OFF_PATH,
        )

        assert same.step_id == _step().step_id

    @pytest.mark.parametrize(
        "change",
        [
            {"format": "codex"},
            {"trajectory": "t/agent"},
            {"index": 2},
            {"action": Action(tool="Bash", input="ls", command="ls")},
            {"action": Action(tool="bash", input="ls", command="ls ")},
            {"observation": "\n"},
        ],
    )
    def test_another_step_has_another_id(self, change: dict[str, Any]) -> None:
        """Format, trajectory, position, tool, action and observation are the identity."""
        assert _step(**change).step_id != _step().step_id

    def test_copy_id(self) -> None:
        """A copied call is known again under another trajectory and position, if the call id is unique."""
        call: dict[str, Any] = {"call_id": "c1", "unique": True}

        assert _step(1, **call).copy_id == _step(5, trajectory="resumed", **call).copy_id
        assert _step(1, **call).copy_id != _step(1, observation="other", **call).copy_id
        assert _step(1, call_id="c1").copy_id is None
        assert _step(1, unique=True).copy_id is None

    def test_keys(self) -> None:
        """A trajectory is known by its format and name; the tool is the action's."""
        assert _step().key == ("native", "t")
        assert _step().tool == "bash"

    def test_values_do_not_change(self) -> None:
        """What flows is frozen."""
        with pytest.raises(AttributeError):
            _step().index = 2  # type: ignore[misc]

    def test_survives_storage(self) -> None:
        """A step written as JSON or MessagePack is read back equal."""
        step = _step(observation="é\0\n", siblings=None, exit_code=0, label=VerdictKind.ON_PATH)

        assert msgspec.json.decode(msgspec.json.encode(step), type=Step) == step
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(step), type=Step) == step


class TestHistory:
    """The steps so far, bounded."""

    def test_reads_as_a_sequence(self) -> None:
        """A history is indexed, sliced, counted and walked like a list."""
        history = History(("native", "t"))
        assert not history
        steps = [_step(index) for index in (1, 2, 3)]
        for step in steps:
            history.append(step)

        assert len(history) == history.total == 3
        assert history[-1] is steps[2]
        assert history[1:] == steps[1:]
        assert list(history) == steps
        assert list(reversed(history)) == steps[::-1]

    @given(sizes=st.lists(st.integers(0, 3_000), max_size=40), limit=st.integers(1, 5_000))
    def test_memory_is_bounded_and_the_count_is_not(self, sizes: list[int], limit: int) -> None:
        """It keeps the latest steps within the limit, at least one, and counts those it dropped."""
        history = History(("native", "t"), limit=limit)
        for count, size in enumerate(sizes, 1):
            history.append(_step(count, "x" * size))

            assert history.total == count
            assert history.dropped + len(history) == count
            assert [step.index for step in history] == list(range(history.dropped + 1, count + 1))
            assert len(history) == 1 or sum(len(step.observation) for step in history) <= limit

    @given(sizes=st.lists(st.integers(0, 900), max_size=20), seen=st.integers(0, 25))
    def test_since_catches_up(self, sizes: list[int], seen: int) -> None:
        """Who saw the first so many steps gets the later ones, as far as they are still held."""
        history = History(("native", "t"), limit=3_000)
        for count, size in enumerate(sizes, 1):
            history.append(_step(count, "x" * size))

        expected = range(max(seen, history.dropped) + 1, len(sizes) + 1)
        assert [step.index for step in history.since(seen)] == list(expected)

    def test_a_copy_goes_its_own_way(self) -> None:
        """It is as long and forgets as early as the other; what is appended to one is not in the other."""
        history = History(("native", "t"), run=3, limit=1_000)
        for count in range(1, 7):
            history.append(_step(count, "x" * 100))
        other = history.copy()
        held = list(other)
        history.append(_step(7, "x" * 400))

        assert (other.key, other.run, other.total, list(other)) == (("native", "t"), 3, 6, held)
        other.append(_step(7, "x" * 400))
        assert (other.dropped, list(other)) == (history.dropped, list(history))

    def test_remembers_whose_it_is(self) -> None:
        """It knows its trajectory, and which run under that name."""
        history = History(("codex", "s/a"), run=2)

        assert (history.key, history.run) == (("codex", "s/a"), 2)


class TestDigest:
    """Stable identities."""

    def test_is_stable(self) -> None:
        """Ids in databases and files stay valid: the digest of a given text never changes."""
        assert digest("a", "b") == "4fc56058b4df0ca122be9a2e429541d6"

    @given(left=st.lists(st.text(max_size=5), max_size=4), right=st.lists(st.text(max_size=5), max_size=4))
    def test_parts_do_not_run_into_each_other(self, left: list[str], right: list[str]) -> None:
        """Other parts give another digest, also where they join to the same text."""
        assert (digest(*left) == digest(*right)) == (left == right)

    def test_takes_half_characters(self) -> None:
        """Lone surrogates, which some logs hold, are hashed, too."""
        assert len(digest("\ud800")) == 32


def test_a_verdict_is_one_json_line() -> None:
    """The verdict JSONL has the documented keys, plain words for enumerations and no line break."""
    verdict = Verdict(
        verdict_id="v",
        step_id="s",
        trajectory="t",
        step=1,
        tool="bash",
        domain="terminal",
        verdict=VerdictKind.ON_PATH,
        reason="as_predicted",
        predictor="shell",
        policy="default@0",
        observed="a\n",
        origin=Origin(path="t.jsonl", offset=0),
        time="2026-01-01T00:00:00Z",
    )

    line = msgspec.json.encode(verdict)
    fields = msgspec.json.decode(line)

    assert b"\n" not in line
    assert fields["verdict"] == "on_path"
    assert set(fields) >= {
        *("schema", "seq", "verdict_id", "step_id", "trajectory", "step", "tool", "domain", "verdict", "reason"),
        *("coverage", "score", "p_value", "threshold", "signals", "alarm", "predicted", "observed", "predictor"),
        *("model", "policy", "tokens", "seconds", "origin", "time"),
    }
    assert msgspec.json.decode(line, type=Verdict) == verdict
