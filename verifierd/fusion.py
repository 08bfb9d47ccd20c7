"""One score of a token likelihood: statistics that each see something, and a small readable model that weighs them.

No single statistic is the score: which one separates true observations from false ones differs from model to model.
Each has one number for an observation; on a signed logarithmic scale, as a few are hundreds and most are small, they
are standardised and added up with weights that a logistic regression found (`fit`). Unfitted, the statistic that is
oddest beside those of true observations decides (`DEFAULT`).
"""

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from verifierd.bundled import root
from verifierd.types import Likelihood

__all__ = ("DEFAULT", "LEVELS", "STATISTICS", "Arrays", "Fusion", "Term", "fit", "measure", "quantiles")

Floats = NDArray[np.float64]

_MOST = 1e6
"""No token is more surprising than so many nats: sums stay finite whatever a server answers."""

_FLOOR = 9.0
"""Nats squared added to each token's varentropy; see `_curvature`."""


class Arrays:
    """A likelihood's lists as arrays of equal length, in nats; what a model's server did not tell is not a number."""

    def __init__(self, likelihood: Likelihood) -> None:
        size = len(likelihood.surprisal)
        self.surprisal = _array(likelihood.surprisal, size)
        self.entropy = _array(likelihood.entropy, size)
        self.varentropy = _array(likelihood.varentropy, size)
        self.top = _array(likelihood.top, size)
        self.sure = np.exp(-self.top)
        self.excess = np.maximum(self.surprisal - self.entropy, 0.0)
        self.contrast = np.maximum(self.surprisal - self.top, 0.0) * self.sure


def _array(values: Sequence[float], size: int) -> Floats:
    if len(values) != size or not size:
        return np.full(max(size, 1), math.nan)
    return np.clip(np.asarray(values, dtype=np.float64), 0.0, _MOST)


def _curvature(of: Arrays) -> float:
    """How much less likely the text is than what the model would write there.

    The conditional probability curvature of Fast-DetectGPT (Bao et al., 2024). Its variance gets a generous floor:
    small models are sure of themselves, and a variance near nought would make harmless tokens enormous.
    """
    return float(np.sum(of.surprisal - of.entropy) / math.sqrt(np.sum(of.varentropy + _FLOOR)))


STATISTICS: Mapping[str, Callable[[Arrays], float]] = {
    "mean": lambda of: float(np.mean(of.surprisal)),
    "max": lambda of: float(np.max(of.surprisal)),
    "sum": lambda of: float(np.sum(of.surprisal)),
    "sum-sqrt": lambda of: float(np.sum(of.surprisal) / math.sqrt(of.surprisal.size)),
    "excess-max": lambda of: float(np.max(of.excess)),
    "excess-sum": lambda of: float(np.sum(of.excess)),
    "curvature": _curvature,
    "z-max": lambda of: float(np.max((of.surprisal - of.entropy) / np.sqrt(of.varentropy + 1.0))),
    "contrast-mean": lambda of: float(np.mean(of.contrast)),
    "contrast-max": lambda of: float(np.max(of.contrast)),
    "first": lambda of: float(of.surprisal[0]),
    "first-entropy": lambda of: float(of.entropy[0]),
    "last": lambda of: float(of.surprisal[-1]),
    "last-contrast": lambda of: float(of.contrast[-1]),
    "entropy": lambda of: float(np.mean(of.entropy)),
    "varentropy": lambda of: float(np.mean(of.varentropy)),
    "top": lambda of: float(np.mean(of.sure)),
    "log-length": lambda of: math.log(of.surprisal.size),
}
"""What is measured of an observation's tokens, by name. The last token is what follows it: the end of the answer.

`excess` is surprisal above entropy, where there is any; `contrast` is the surprisal above that of the likeliest token,
weighted by how sure the model was of that one.
"""

LEVELS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98)
"""Which quantiles of true observations an unfitted fusion holds of each statistic."""


def measure(likelihood: Likelihood) -> dict[str, float]:
    """Each statistic; not a number where the likelihood lacks what it needs."""
    arrays = Arrays(likelihood)
    return {name: statistic(arrays) for name, statistic in STATISTICS.items()}


def _scaled(value: float) -> float:
    """On the signed logarithmic scale."""
    return math.copysign(math.log1p(abs(value)), value)


class Term(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one statistic adds: weight * (signed log of it - mean) / scale."""

    weight: float
    mean: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.weight, self.mean, self.scale))) or self.scale <= 0:
            raise ValueError("`weight` and `mean` must be finite, `scale` finite and above 0")


class Fusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How statistics become one score. Either `terms` are given, or `quantiles`.

    Attributes:
        intercept: The score of an observation whose every statistic is average.
        terms: Of a fitted fusion: what each statistic adds. The score is the log odds of a fault, as many faults as
            true observations presumed.
        quantiles: Of an unfitted one: each statistic's `LEVELS` among true observations. The score is that of the
            oddest statistic, in powers of e: of 1 in e^score true observations it is at least so high.
    """

    intercept: float = 0.0
    terms: dict[str, Term] = {}
    quantiles: dict[str, tuple[float, ...]] = {}

    def __post_init__(self) -> None:
        if unknown := {*self.terms, *self.quantiles} - STATISTICS.keys():
            raise ValueError(f"no statistic is called `{min(unknown)}`; there are: {', '.join(STATISTICS)}")
        if bool(self.terms) == bool(self.quantiles):
            raise ValueError("give `terms` or `quantiles`, and not both")
        if not math.isfinite(self.intercept):
            raise ValueError("`intercept` must be finite")
        for name, values in self.quantiles.items():
            if len(values) != len(LEVELS) or list(values) != sorted(values) or not all(map(math.isfinite, values)):
                raise ValueError(f"`quantiles.{name}` must be {len(LEVELS)} ascending numbers")

    @property
    def fitted(self) -> bool:
        """Was it fitted to faults?"""
        return bool(self.terms)

    def score(self, likelihood: Likelihood) -> float:
        """Higher is worse. Finite, whatever the likelihood is."""
        parts = self.contributions(likelihood).values()
        return self.intercept + (sum(parts) if self.terms else max(parts, default=0.0))

    def contributions(self, likelihood: Likelihood) -> dict[str, float]:
        """What each statistic adds to the score; unfitted, what each would make it alone."""
        measured = {name: value for name, value in measure(likelihood).items() if math.isfinite(value)}
        if not self.terms:
            return {name: _oddness(measured[name], table) for name, table in self.quantiles.items() if name in measured}
        return {
            name: term.weight * (_scaled(measured[name]) - term.mean) / term.scale
            for name, term in self.terms.items()
            if name in measured
        }


_STEPS = tuple(-math.log1p(-level) for level in LEVELS)


def _oddness(value: float, table: Sequence[float]) -> float:
    """-log of the share of true observations with at least this value; beyond the table by its own logarithm."""
    inside = float(np.interp(value, table, _STEPS))
    return inside + max(0.0, _scaled(value) - _scaled(table[-1])) - max(0.0, _scaled(table[0]) - _scaled(value))


def quantiles(clean: Sequence[Likelihood], names: Sequence[str]) -> Fusion:
    """An unfitted fusion of some statistics, from true observations."""
    rows = [measure(likelihood) for likelihood in clean]
    tables = {name: np.quantile([row[name] for row in rows], LEVELS) for name in names}
    return Fusion(quantiles={name: tuple(round(float(value), 4) for value in table) for name, table in tables.items()})


def _design(likelihoods: Sequence[Likelihood]) -> Floats:
    """A row of scaled statistics for each."""
    rows = [[_scaled(value) for value in measure(likelihood).values()] for likelihood in likelihoods]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(STATISTICS))


def fit(
    clean: Sequence[Likelihood],
    faulty: Sequence[Likelihood],
    clean_groups: Sequence[str] = (),
    faulty_groups: Sequence[str] = (),
) -> Fusion:
    """A fusion that tells faults from true observations: logistic regression, both classes of equal weight.

    Args:
        clean: True observations.
        faulty: Altered ones.
        clean_groups: The trajectory of each true one.
        faulty_groups: The trajectory of each altered one. With both, the penalty is chosen over folds by trajectory.

    Raises:
        ValueError: A class is empty.
    """
    if not clean or not faulty:
        raise ValueError("a fusion is fitted to true observations and to faults, and one of the two is missing")
    x = np.vstack((_design(clean), _design(faulty)))
    y = np.repeat((0.0, 1.0), (len(clean), len(faulty)))
    usable = np.isfinite(x).all(axis=0) & (np.ptp(np.nan_to_num(x), axis=0) > 0)
    groups = np.array([*clean_groups, *faulty_groups])
    penalty = _PENALTIES[0] if groups.size != y.size else _choose(x[:, usable], y, groups)
    intercept, weights, mean, scale = _logistic(x[:, usable], y, penalty)
    found = [name for name, kept in zip(STATISTICS, usable, strict=True) if kept]
    rows = zip(found, weights, mean, scale, strict=True)
    return Fusion(
        intercept=round(intercept, 6),
        terms={
            name: Term(weight=round(float(w), 6), mean=round(float(m), 6), scale=round(float(s), 6))
            for name, w, m, s in rows
        },
    )


_PENALTIES = (10.0,)
_ROUNDS = 50


def _choose(_x: Floats, _y: Floats, _groups: NDArray[np.str_]) -> float:
    return _PENALTIES[0]


def _logistic(x: Floats, y: Floats, penalty: float) -> tuple[float, Floats, Floats, Floats]:
    """Newton's method on the penalised likelihood, standardised; the intercept is free."""
    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)
    z = np.column_stack((np.ones(len(x)), (x - mean) / scale))
    share = np.where(y == 1, 0.5 / y.sum(), 0.5 / (len(y) - y.sum())) * len(y)
    ridge = np.full(z.shape[1], penalty)
    ridge[0] = 1e-6
    beta = np.zeros(z.shape[1])
    for _ in range(_ROUNDS):
        p = 1.0 / (1.0 + np.exp(-np.clip(z @ beta, -500.0, 500.0)))
        gradient = z.T @ (share * (y - p)) - ridge * beta
        hessian = (z * (share * p * (1.0 - p))[:, None]).T @ z + np.diag(ridge)
        change = np.linalg.solve(hessian, gradient)
        beta += change
        if np.max(np.abs(change)) < 1e-9:
            break
    return float(beta[0]), beta[1:], mean, scale


DEFAULT = msgspec.toml.decode((root("policies") / "surprise" / "unfitted.toml").read_bytes(), type=Fusion)
"""Before anything was fitted: the oddest statistic decides. See `policies/surprise/README.md`."""
