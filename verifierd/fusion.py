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

__all__ = ("DEFAULT", "LEVELS", "STATISTICS", "Arrays", "Fusion", "Term", "fit", "fit_measured", "measure", "quantiles")

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
    return np.clip(np.fromiter(values, dtype=np.float64, count=size), 0.0, _MOST)


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
        return self.score_measured(measure(likelihood))

    def contributions(self, likelihood: Likelihood) -> dict[str, float]:
        """What each statistic adds to the score; unfitted, what each would make it alone."""
        return self._parts(measure(likelihood))

    def score_measured(self, measured: Mapping[str, float]) -> float:
        """The score of what `measure` found."""
        parts = self._parts(measured).values()
        return self.intercept + (sum(parts) if self.terms else max(parts, default=0.0))

    def _parts(self, measured: Mapping[str, float]) -> dict[str, float]:
        measured = {name: value for name, value in measured.items() if math.isfinite(value)}
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
        faulty_groups: The trajectory of each altered one. With both the penalty is chosen over folds by trajectory,
            the one whose likelihood of what was left out is best; without, it is a middle one.

    Raises:
        ValueError: A class is empty, or the groups are not as many.
    """
    return fit_measured(list(map(measure, clean)), list(map(measure, faulty)), clean_groups, faulty_groups)


def fit_measured(
    clean: Sequence[Mapping[str, float]],
    faulty: Sequence[Mapping[str, float]],
    clean_groups: Sequence[str] = (),
    faulty_groups: Sequence[str] = (),
) -> Fusion:
    """As `fit`, from what `measure` found."""
    if not clean or not faulty:
        raise ValueError("a fusion is fitted to true observations and to faults, and one of the two is missing")
    if (clean_groups or faulty_groups) and (len(clean_groups), len(faulty_groups)) != (len(clean), len(faulty)):
        raise ValueError("each observation needs its group, or none has one")
    x = np.array([[_scaled(row[name]) for name in STATISTICS] for row in (*clean, *faulty)])
    usable = np.isfinite(x).all(axis=0) & (np.ptp(np.nan_to_num(x), axis=0) > 0)
    names = [name for name, kept in zip(STATISTICS, usable, strict=True) if kept]
    if not names:
        raise ValueError("no statistic differs between these observations")
    y = np.repeat((0.0, 1.0), (len(clean), len(faulty)))
    data = _Data(x[:, usable], y, np.array([name in _ONE_SIDED for name in names]))
    intercept, terms = data.fitted(data.best(np.array([*clean_groups, *faulty_groups])))
    return Fusion(
        intercept=round(intercept, 6),
        terms={name: Term(weight=w, mean=m, scale=s) for name, (w, m, s) in zip(names, terms.tolist(), strict=True)},
    )


_ONE_SIDED = frozenset(("max", "excess-max", "z-max", "contrast-max", "first", "last", "last-contrast"))
"""What one token says can only speak for a fault: their weights are never negative. The others also correct for the
length, for one another, and for how sure the model is at all."""

_PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
_MIDDLE = 1.0
_FOLDS = 5
_ROUNDS = 100


class _Data:
    """Rows of scaled statistics with what they are of, 1.0 for a fault, and which weights must not be negative."""

    def __init__(self, x: Floats, y: Floats, one_sided: NDArray[np.bool_]) -> None:
        self._x, self._y, self._one_sided = x, y, one_sided
        faults = float(np.sum(y))
        self._share = np.where(y == 1.0, 0.5 / max(faults, 1.0), 0.5 / max(y.size - faults, 1.0))

    def best(self, groups: NDArray[np.str_]) -> float:
        """The penalty that does best on trajectories left out; the strongest of equals."""
        if groups.size != self._y.size or np.unique(groups).size < _FOLDS:
            return _MIDDLE
        number = np.random.default_rng(0).permutation(np.unique(groups).size) % _FOLDS
        fold = number[np.unique(groups, return_inverse=True)[1]]
        parts = [(fold != one, fold == one) for one in range(_FOLDS)]
        if any(np.unique(self._y[kept]).size < 2 for kept, _ in parts):
            return _MIDDLE
        return min(reversed(_PENALTIES), key=lambda penalty: sum(self._left_out(*part, penalty) for part in parts))

    def _left_out(self, kept: NDArray[np.bool_], out: NDArray[np.bool_], penalty: float) -> float:
        """What the rest says of the rows left out: the loss, less is better."""
        intercept, terms = _Data(self._x[kept], self._y[kept], self._one_sided).fitted(penalty)
        log_odds = intercept + ((self._x[out] - terms[:, 1]) / terms[:, 2]) @ terms[:, 0]
        return float(self._share[out] @ (np.logaddexp(0.0, log_odds) - self._y[out] * log_odds))

    def fitted(self, penalty: float) -> tuple[float, Floats]:
        """The intercept, and of each statistic weight, mean and scale.

        Newton's method on the likelihood, penalised by the weights' squares: weights that stand at nought and would
        fall below it are left there, steps that would not help are halved.
        """
        mean = self._share @ self._x
        scale = np.maximum(np.sqrt(self._share @ (self._x - mean) ** 2), 1e-6)
        z = np.column_stack((np.ones(self._y.size), (self._x - mean) / scale))
        bounded = np.concatenate(([False], self._one_sided))
        # As many observations as twice the smaller class: more altered copies of the same steps say little more.
        share = self._share * 2.0 * min(np.sum(self._y), np.sum(1.0 - self._y))
        ridge = np.full(z.shape[1], penalty)
        ridge[0] = 1e-6  # the intercept is as good as free

        def loss(weights: Floats) -> float:
            log_odds = z @ weights
            return float(share @ (np.logaddexp(0.0, log_odds) - self._y * log_odds) + ridge @ weights**2 / 2.0)

        weights, now = np.zeros(z.shape[1]), math.inf
        for _ in range(_ROUNDS):
            odds = 1.0 / (1.0 + np.exp(-np.clip(z @ weights, -500.0, 500.0)))
            slope = ridge * weights + z.T @ (share * (odds - self._y))
            moving = ~(bounded & (weights <= 0.0) & (slope > 0.0))
            bend = (z * (share * odds * (1.0 - odds))[:, None]).T @ z + np.diag(ridge)
            step = np.zeros_like(weights)
            step[moving] = np.linalg.solve(bend[np.ix_(moving, moving)], slope[moving])
            before, now = now, loss(weights)
            for _ in range(_HALVINGS):
                tried = np.where(bounded, np.maximum(weights - step, 0.0), weights - step)
                if loss(tried) <= now:
                    break
                step /= 2.0
            else:
                break
            weights = tried
            if before - now < _ROUNDING * abs(now):
                break
        return float(weights[0]), np.round(np.column_stack((weights[1:], mean, scale)), 6)


_HALVINGS = 30
_ROUNDING = 1e-10


DEFAULT = msgspec.toml.decode((root("policies") / "surprise" / "unfitted.toml").read_bytes(), type=Fusion)
"""Before anything was fitted: the oddest statistic decides. See `policies/surprise/README.md`."""
