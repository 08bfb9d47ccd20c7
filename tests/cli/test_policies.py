"""`verifierd policies`: the bundled ones, and one in words."""

from pathlib import Path

import msgspec
import pytest

from tests.helpers import verifierd
from verifierd import policy
from verifierd.calibration import Calibration, Growth, Rate, Reference, Sizes
from verifierd.fusion import Fusion, Term
from verifierd.policy import Calibrated, Policy
from verifierd.replay.calibrate import toml

LEARNT = Calibration(
    alpha=0.05,
    step_alpha=0.001,
    trim=0.02,
    seed=0,
    reference=Reference(),
    growth=Growth(),
    level=12.5,
    missing=0,
    step_level=4.25,
    sizes=Sizes(trajectories=204, groups=180, steps=1234, reference=100, level=100, trimmed=4),
    alarms=Rate(8, 200, 0.0174, 0.0773),
    suspects=Rate(1, 1200, 0.00002, 0.0046),
)


def _told(tmp_path: Path, learnt: Calibration, **keys: object) -> list[str]:
    """What `show` says of a policy with a calibration."""
    plain = msgspec.convert({"name": "mine", **keys}, Policy)
    made = Calibrated(
        date="2026-11-30T09:00:00Z",
        predictor="shell,mlx",
        model="tiny@1",
        policy="default@00",
        measure=plain.measure,
        learnt=learnt,
    )
    (tmp_path / "mine.toml").write_text(
        toml(msgspec.structs.replace(plain, calibration=msgspec.structs.replace(made, hash=made.digest)))
    )
    return verifierd("policies", "show", tmp_path / "mine.toml").stdout.splitlines()


def test_all_bundled_policies_are_listed() -> None:
    """Each has a line with its name and its predictors."""
    lines = verifierd("policies").stdout.splitlines()
    for name in policy.names():
        assert any(line.split()[:2] == [name, ",".join(policy.load(name).predictors)] for line in lines)


@pytest.mark.parametrize("name", policy.names())
def test_each_is_told_in_words(name: str) -> None:
    """A bundled policy is explained: what it asks, compares, decides and when it alarms."""
    found = policy.load(name)
    told = verifierd("policies", "show", name).stdout.splitlines()

    assert told[0] == f"{found.id}: {found.description}"
    assert [line for line in told if not line.startswith(" ")][1:] == [
        "asks",
        "compares",
        "decides",
        *(f"in the domain {domain}" for domain in found.domains),
        "alarms",
        "calibration",
        "surprise",
    ]
    assert ("  never: it only measures" in told) is (name == "shadow")


def test_ones_own_is_told_in_words(tmp_path: Path) -> None:
    """A file is explained as the bundled ones are."""
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nnormalisers = []\nclasses = []\nalarm-after = 1\nmin-coverage = 0.005\nquotes = "off"\n'
        'ask-below = 0.5\nshell-profile = "bash"\n[asking]\nmax-tokens = 300\n'
    )
    own = verifierd("policies", "show", tmp_path / "mine.toml").stdout
    assert "after taking off or forgiving: nothing" in own
    assert "where something was guessed: nothing" in own
    assert "after more than 1 contradiction of something certain" in own
    assert "at least 0.5 % of the text" in own
    assert "verdicts quote nothing of action" in own
    assert "until 50 % of the text is checked" in own
    assert "bash with GNU programs" in own
    assert "at most 300 tokens" in own


def test_rules_are_told(tmp_path: Path) -> None:
    """Of each domain and tool what is different there."""
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\n[domains.mcp]\nclasses = ["deterministic"]\nnormalisers = ["json-order"]\n[domains.web]\n'
        '[tools."a\\u001b[31mb"]\nmin-coverage = 0.25\nsurprise = false\n'
    )
    told = verifierd("policies", "show", tmp_path / "mine.toml").stdout.splitlines()
    start = told.index("in the domain mcp")
    assert told[start : start + 8] == [
        "in the domain mcp",
        "  takes off or forgives: json-order",
        "  looks, where something was guessed, at: what follows from the history (deterministic)",
        "in the domain web",
        "  does as everywhere",
        "of the tool a\\x1b[31mb",
        "  says on_path if at least 25 % of the text was checked",
        "  leaves a model's surprise out",
    ]


def test_a_calibration_is_told(tmp_path: Path) -> None:
    """When, from what, with which predictor and model, the levels, and what came of them with intervals."""
    told = _told(tmp_path, LEARNT)
    start = told.index("calibration")
    assert told[start + 1].startswith("  of 2026-11-30T09:00:00Z, hash ")
    assert told[start + 2 : start + 9] == [
        "  made with policy default@00, predictors shell,mlx, model tiny@1",
        "  from 204 clean trajectories of 180 groups with 1,234 scored steps",
        "  of these 100 for the reference, 100 for the level, 4 trimmed as too odd",
        "  alarm level 12.5: at most 5 % of clean trajectories alarm, on average",
        "  step level 4.25: 0.1 % of clean steps score above it",
        "  tried on others, 4 % of the clean trajectories alarmed (8 of 200; 95 % interval 1.74 to 7.73 %)",
        "  tried on others, 0.0833 % of the clean steps were off path (1 of 1,200; 95 % interval 0.002 to 0.46 %)",
    ]
    assert "  off_path if a step is as odd as 0.1 % of clean steps at most" in told
    assert told[told.index("alarms") + 1 :][:2] == [
        "  after the first contradiction of something certain in one trajectory",
        "  when the evidence of a trajectory exceeds 12.5, and one of its steps is odd",
    ]


def test_too_few_are_inconclusive(tmp_path: Path) -> None:
    """Without a level it says how many trajectories are missing, and what alarms meanwhile."""
    sizes = msgspec.structs.replace(LEARNT.sizes, level=12)
    told = _told(tmp_path, msgspec.structs.replace(LEARNT, level=None, missing=14, sizes=sizes, delta=None))
    (line,) = [line for line in told if "INCONCLUSIVE" in line]
    assert "needs 19 trajectories and has 12; about 14 more are missing" in line
    assert any("the first contradiction" in line and "inconclusive" in line for line in told)


def test_a_change_after_the_calibration_is_told(tmp_path: Path) -> None:
    """A policy that makes other scores than those it was calibrated with says so."""
    _told(tmp_path, LEARNT)
    path = tmp_path / "mine.toml"
    assert "calibrate anew" not in verifierd("policies", "show", path).stdout
    path.write_text(path.read_text().replace("ask-below = 1.0", "ask-below = 0.5"))
    assert "calibrate anew" in verifierd("policies", "show", path).stdout


def test_weights_are_told_in_order(tmp_path: Path) -> None:
    """The statistics of a fitted score, those that count most first."""
    fusion = Fusion(
        intercept=-0.5,
        terms={"mean": Term(weight=0.25), "first": Term(weight=1.5), "entropy": Term(weight=-0.75)},
    )
    told = _told(tmp_path, LEARNT, surprise=msgspec.to_builtins(fusion))
    start = told.index("surprise")
    assert told[start + 1].startswith("  fitted: -0.5, ")
    assert [line.split() for line in told[start + 2 :]] == [
        ["+1.500", "first"],
        ["-0.750", "entropy"],
        ["+0.250", "mean"],
    ]


def test_an_unknown_key_is_one_message(tmp_path: Path) -> None:
    """It names the place and what was probably meant."""
    (tmp_path / "mine.toml").write_text('name = "mine"\ndomains.mcp.suprise = false\n')
    done = verifierd("policies", "show", tmp_path / "mine.toml")
    assert (done.returncode, done.stdout) == (78, "")
    assert "unknown field `suprise` - at `$.domains.mcp`" in done.stderr
    assert "Did you mean `surprise`?" in done.stderr
