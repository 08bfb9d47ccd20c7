"""How likely a model found the observation: where the two part, for now, and the mean surprisal.

Nobody has measured yet how often a model is surprised by what is true. So a difference is shown as `suspect`, and the
step abstains as `uncalibrated`.
"""

from verifierd.types import Abstain, History, Likelihood, Prediction, Score, Signal, Step

__all__ = ("likelihood",)


def likelihood(_history: History, step: Step, prediction: Prediction) -> Score:
    """The mean surprisal in nats a token; the first token that the model would not have given is suspect.

    Where the whole text was predicted, the texts are compared instead.
    """
    found = prediction.likelihood
    if found is None:
        return Score(name="likelihood", reason="no model was asked")
    if step.elided is not None:
        # Neither the mark of the cut nor the end after it is the environment's.
        return Score(name="likelihood", reason=f"the log cut the observation ({step.elided})")
    mean = sum(found.surprisal) / len(found.surprisal)
    if prediction.text is not None or prediction.failed is not None:
        return Score(name="likelihood", value=mean)
    return Score(name="likelihood", value=mean, abstain=Abstain.UNCALIBRATED, signals=_suspect(found, step))


def _suspect(found: Likelihood, step: Step) -> tuple[Signal, ...]:
    if found.expected is None:
        return ()
    end = len(step.observation.rstrip())
    bounds = [*found.starts, end]
    span = None
    if len(bounds) == len(found.surprisal):  # the tokens' places are known
        span = bounds[found.agreed], bounds[min(found.agreed + 1, len(bounds) - 1)]
    surprisal = found.surprisal[found.agreed]
    expected = f"“{found.expected}”" if found.expected else "the end of the output"
    detail = f"the model expected {expected} here; it found what came {surprisal:.1f} nats surprising"
    return (Signal(name="suspect", value=surprisal, span=span, detail=detail),)
