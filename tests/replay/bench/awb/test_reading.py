"""What an answer and a judge's reply hold."""

import pytest

from tests.replay.bench.server import verdict
from verifierd.replay.bench.awb.reading import DIMENSIONS, extracted, graded, unmarked

BARE = '{"scores": {"format": 4, "factuality": 3, "consistency": 5, "realism": 2, "quality": 1}}'
GIVEN = dict(zip(DIMENSIONS, (4, 3, 5, 2, 1), strict=True))


@pytest.mark.parametrize(
    ("said", "observation"),
    [
        ("", "No output"),
        ("plain", "plain"),
        ("  a\nb \n", "a\nb"),
        ("x <predicted_observation>\n1\n</predicted_observation> y", "1"),
        ("<predicted_observation>1</predicted_observation><predicted_observation>2</predicted_observation>", "2"),
        ("<Predicted_Observation>1", "1"),
        ("<predicted_observation></predicted_observation>", ""),
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>never ends", "No output"),
        ("<think>never ends<predicted_observation>1</predicted_observation>", "1"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<think><predicted_observation>1</predicted_observation></think>2", "2"),
    ],
)
def test_the_observation_in_an_answer(said: str, observation: str) -> None:
    """Thoughts are dropped, the last block in tags counts, else all."""
    assert extracted(said) == observation


def test_the_marker_is_taken_off() -> None:
    """Before the observation, or wherever it stands where it does not begin the text."""
    assert unmarked("**Environment Observation:**\n a \n**Environment Observation:**") == (
        "a \n**Environment Observation:**"
    )
    assert unmarked("so: **Environment Observation:** a") == "so:  a"


@pytest.mark.parametrize(
    "reply",
    [
        verdict(4, 3, 5, 2, 1),
        BARE,
        f"my view: {BARE} as said",
        f"```json\n{BARE}\n```",
        f"```\n{BARE}\n``` and ```json\n{{}}\n```",
        f"<think>{BARE.replace('4', '1')}</think><final_evaluation>{BARE}</final_evaluation>",
        f"<final_evaluation>{BARE}",
        verdict(1, 1, 1, 1, 1) + "No, that was too harsh.\n" + verdict(4, 3, 5, 2, 1),
        "<think>I cannot end <final_evaluation>" + BARE + "</final_evaluation>",
        '{"scores": {"format": 4.2, "factuality": "3/5", "consistency": 9, "realism": 2, "quality": true,},}',
        "{'scores': {'format': 4, factuality: 3, consistency: 5, realism: 2, quality: 1}}",
        '{"strengths": ["he said, note: fine"], ' + BARE[1:],
        '{"strengths": ["a brace { and a \\" quote"], ' + BARE[1:],
    ],
)
def test_scores_are_found(reply: str) -> None:
    """In tags or fences or neither, after thoughts, the last of several, slips in the JSON mended, 1 to 5."""
    grade = graded(reply)
    assert not grade.problem
    assert grade.scores == GIVEN
    assert grade.total == 3.0


def test_what_is_left_out_does_not_count() -> None:
    """A dimension without a number is 0, and the mean is of the others."""
    grade = graded('{"scores": {"format": 4, "factuality": "good", "consistency": null, "realism": -1}}')
    assert grade.scores == {"format": 4, "factuality": 0, "consistency": 0, "realism": -1, "quality": 0}
    assert grade.total == 4.0
    assert graded('{"scores": {}}').total == 0.0
    assert graded(f'{{"scores": {{"quality": -{"9" * 400}, "format": 1e300}}}}').scores["quality"] == -1000
    assert not graded('{"scores": {}}').problem


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   ",
        "<think>all of it</think>",
        "I am sorry, I cannot judge this.",
        "format 4, factuality 3",
        '{"verdict": "good"}',
        '{"scores": [4, 3, 5, 2, 1]}',
        '{"scores": {"format": 4, "factuality": 3',
        "```json\nnothing\n```",
        '{"scores": {"format": NaN}}',
        '{"scores": ' * 3000,
    ],
)
def test_what_cannot_be_read_is_a_failure(reply: str) -> None:
    """An empty reply, a refusal, a cut one, JSON of another form: no scores, and why."""
    grade = graded(reply)
    assert grade.problem
    assert not grade.scores


def test_a_hostile_reply_takes_no_long_time() -> None:
    """Braces without end are given up."""
    assert graded("{" * 100_000).problem
    assert graded('{"' * 50_000).problem
