"""Predictions that somebody made before, read from a JSONL file."""

from pathlib import Path

import msgspec

from verifierd.errors import PredictorError
from verifierd.types import Abstain, History, Prediction, Step

__all__ = ("RecordedPredictor",)


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction, or a line of a verdict JSONL, whose `predicted` is then taken."""

    trajectory: str
    step: int
    text: str | None = None
    predicted: str | None = None
    exit_code: int | None = None
    certain: bool = False
    truncated: bool = False
    model: str | None = None


class RecordedPredictor:
    """Looks predictions up by trajectory and step; where there is none it abstains.

    Args:
        path: One JSON object a line with `trajectory`, `step` and `text` (or `predicted`), optionally `exit_code`,
            `certain`, `truncated` and `model`. A later line for the same step replaces an earlier one.

    Raises:
        PredictorError: The file cannot be read or a line is not of that shape.
    """

    name = "recorded"

    def __init__(self, path: Path) -> None:
        self._known: dict[tuple[str, int], _Line] = {}
        decoder = msgspec.json.Decoder(_Line)
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        found = _decode(decoder, line, f"{path}:{number}")
                        self._known[found.trajectory, found.step] = found
        except OSError as error:
            raise PredictorError(
                f"{path}: cannot read the predictions: {error.strerror or error}",
                hint="Name a readable JSONL file after --predictions.",
            ) from error
        self.model = next((line.model for line in self._known.values() if line.model), None)

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:  # noqa: ARG002 - the protocol's signature
        """The recorded prediction of this step."""
        line = self._known.get((step.trajectory, step.index))
        text = None if line is None else line.text if line.text is not None else line.predicted
        if line is None or text is None:
            return Prediction(predictor=self.name, abstain=Abstain.UNPREDICTABLE, detail="no prediction was recorded")
        return Prediction(
            predictor=self.name,
            text=text,
            exit_code=line.exit_code,
            certain=line.certain,
            truncated=line.truncated,
            model=line.model,
        )

    async def aclose(self) -> None:
        """Nothing is held."""


def _decode(decoder: msgspec.json.Decoder[_Line], line: bytes, where: str) -> _Line:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise PredictorError(
            f"{where}: not a prediction: {error}",
            hint='Each line needs at least {"trajectory": "...", "step": 1, "text": "..."}.',
        ) from error
