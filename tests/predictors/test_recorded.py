"""Predictions read from a file."""

from pathlib import Path

import pytest

from verifierd.errors import PredictorError
from verifierd.predictors.recorded import RecordedPredictor
from verifierd.types import Abstain, Action, History, Origin, Prediction, Step

pytestmark = pytest.mark.anyio


def _step(index: int, trajectory: str = "t") -> Step:
    return Step(
        format="native",
        trajectory=trajectory,
        index=index,
        action=Action(tool="bash", input="ls", command="ls"),
        observation="",
        origin=Origin(path="t.jsonl", offset=0),
    )


def _file(folder: Path, text: str | bytes) -> Path:
    path = folder / "predictions.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


async def _ask(predictor: RecordedPredictor, step: Step) -> Prediction:
    return await predictor.predict(History(step.key), step)


async def test_a_prediction_is_found_by_trajectory_and_step(tmp_path: Path) -> None:
    """Everything a line says of a step is given back for that step alone."""
    predictor = RecordedPredictor(
        _file(
            tmp_path,
            '{"trajectory": "t", "step": 1, "text": "one\\n", "exit_code": 0, "certain": true, "model": "m", "x": 1}\n'
            "\n"
            '{"trajectory": "u", "step": 1, "text": "cut", "truncated": true}',
        )
    )

    assert await _ask(predictor, _step(1)) == Prediction(
        predictor="recorded", text="one\n", exit_code=0, certain=True, model="m"
    )
    assert await _ask(predictor, _step(1, "u")) == Prediction(predictor="recorded", text="cut", truncated=True)
    assert predictor.model == "m"
    await predictor.aclose()


async def test_an_unknown_step_is_an_abstention(tmp_path: Path) -> None:
    """Where nothing was recorded, and where the record holds no text, it abstains."""
    predictor = RecordedPredictor(_file(tmp_path, '{"trajectory": "t", "step": 1, "predicted": null}\n'))

    for step in (_step(1), _step(2), _step(1, "u")):
        prediction = await _ask(predictor, step)
        assert prediction.abstain is Abstain.UNPREDICTABLE
        assert prediction.detail == "no prediction was recorded"


async def test_verdicts_can_be_replayed(tmp_path: Path) -> None:
    """A line of a verdict JSONL gives what was predicted then; `text` wins where both are there."""
    predictor = RecordedPredictor(
        _file(
            tmp_path,
            '{"trajectory": "t", "step": 1, "predicted": "", "verdict": "on_path"}\n'
            '{"trajectory": "t", "step": 2, "predicted": "old", "text": "new"}\n',
        )
    )

    assert (await _ask(predictor, _step(1))).text == ""
    assert (await _ask(predictor, _step(2))).text == "new"


async def test_a_later_line_replaces_an_earlier_one(tmp_path: Path) -> None:
    """The last line for a step counts."""
    line = '{{"trajectory": "t", "step": 1, "text": "{}"}}\n'

    assert (await _ask(RecordedPredictor(_file(tmp_path, line.format("a") + line.format("b"))), _step(1))).text == "b"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"not json", "JSON is malformed"),
        (b'{"trajectory": "t", "text": "a"}', "missing required field `step`"),
        (b'{"trajectory": "t", "step": "1", "text": "a"}', "Expected `int`, got `str` - at `$.step`"),
        (b'{"trajectory": "t", "step": 1, "text": "\xff"}', "UTF-8"),
        (b'{"x":' * 100_000, "recursion"),
        (b"[]", "Expected `object`, got `array`"),
    ],
)
async def test_a_bad_line_is_named(tmp_path: Path, bad: bytes, words: str) -> None:
    """A line of another shape stops the start, with file, line and the shape that is needed."""
    path = _file(tmp_path, b'{"trajectory": "t", "step": 1, "text": "a"}\n' + bad)

    with pytest.raises(PredictorError) as caught:
        RecordedPredictor(path)

    assert str(caught.value).startswith(f"{path}:2: not a prediction: ")
    assert words in str(caught.value)
    assert caught.value.hint == 'Each line needs at least {"trajectory": "...", "step": 1, "text": "..."}.'


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that cannot be read stops the start, with its name."""
    path = tmp_path / "absent.jsonl"

    with pytest.raises(PredictorError) as caught:
        RecordedPredictor(path)

    assert str(caught.value) == f"{path}: cannot read the predictions: No such file or directory"
