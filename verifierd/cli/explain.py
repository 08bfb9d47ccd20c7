"""`verifierd explain`: one verdict in plain words, for whoever was called because of it."""

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio
import click
import msgspec
from rich.console import Console
from rich.text import Text

from verifierd import policy as policies
from verifierd.cli.view import comparison, console, counted, indented, one_line
from verifierd.config import default_state
from verifierd.errors import PolicyError, SourceError, VerifierdError
from verifierd.labels import Label, holds
from verifierd.paths import expanded
from verifierd.policy import Policy
from verifierd.replay.words import KINDS, REASONS, SIGNALS
from verifierd.sanitize import Sanitizer, plain
from verifierd.store import Store, StoredAlarm
from verifierd.types import ObservationKind, Signal, Verdict, VerdictKind

__all__ = ("Explanation", "command", "policy_of")

_CANDIDATES = 5  # verdicts named where a prefix fits several

_DECISIONS = {
    VerdictKind.ON_PATH: "on path: what could be known was checked, and reality agrees",
    VerdictKind.OFF_PATH: "off path: reality departed from what had to come",
    VerdictKind.ABSTAIN: "not decided",
}


@click.command("explain")
@click.argument("identity", metavar="VERDICT_ID")
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR", help="State folder of `verifierd run`.")
@click.option(
    "--verdicts",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Look in this verdict JSONL instead of a database.",
)
@click.option(
    "--policy", "policy_name", metavar="NAME|FILE", help="The policy that decided, if it is not a bundled one."
)
def command(*, identity: str, state: Path | None, verdicts: Path | None, policy_name: str | None) -> None:
    """Say what a verdict rests on: expected, observed, signals, thresholds, and what was not checked.

    VERDICT_ID may be a step's id, and the beginning of either is enough if nothing else begins so. A daemon may run
    meanwhile: its database is only read.
    """
    if state is not None and verdicts is not None:
        raise click.UsageError("name --state or --verdicts, not both")
    identity = identity.strip().lower()
    if not identity:
        raise click.BadParameter("an id, or its beginning, is needed", param_hint="VERDICT_ID")
    given = policies.load(policy_name) if policy_name is not None else None
    if verdicts is not None:
        verdict = _the_one(_in_file(verdicts, identity), identity, str(verdicts))
        Explanation(console(), verdict, policy_of(verdict, given)).show()
        return
    where = expanded(state or default_state())
    verdict, alarm, labels = anyio.run(_in_state, where, identity)
    Explanation(console(), verdict, policy_of(verdict, given), alarm, labels).show()


async def _in_state(where: Path, identity: str) -> tuple[Verdict, StoredAlarm | None, list[Label]]:
    async with Store(where, read_only=True) as store:
        found = [msgspec.json.decode(kept.line, type=Verdict) for kept in await store.find(identity)]
        verdict = _the_one(found, identity, str(where))
        return verdict, await store.alarm_of(verdict.step_id), await store.labels(verdict.step_id)


def _in_file(path: Path, identity: str) -> list[Verdict]:
    """The verdicts in a file whose id, or whose step's id, begins so."""
    found: list[Verdict] = []
    clean = Sanitizer(os.urandom(16))  # it may be anybody's file
    wanted = identity.encode("utf-8", "surrogateescape")
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if wanted not in line or not line.endswith(b"\n"):  # a last line may be half written
                    continue
                try:
                    verdict = msgspec.json.decode(line, type=Verdict)
                except msgspec.DecodeError as error:
                    raise SourceError(
                        f"{path}:{number}: is no verdict: {error}", hint="Name a file that `--out` or the daemon wrote."
                    ) from error
                if verdict.verdict_id.startswith(identity) or verdict.step_id.startswith(identity):
                    found.append(clean.verdict(verdict, "full"))
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read: {error.strerror or error}", hint="Name a verdict JSONL after --verdicts."
        ) from error
    return found


def _the_one(found: Sequence[Verdict], identity: str, where: str) -> Verdict:
    """The verdict that is meant: of several on one step the last.

    Raises:
        VerifierdError: There is none, or there are several steps.
    """
    if not found:
        raise VerifierdError(
            f"no verdict or step in {where} has an id that begins with `{identity}`",
            hint="Ids stand in verdicts.jsonl, in the log, and at the foot of each off-path step; old verdicts are"
            " deleted after a while. --state DIR and --verdicts FILE name other places.",
        )
    steps = {verdict.step_id: verdict for verdict in found}
    if len(steps) > 1:
        known = [f"{v.verdict_id} ({v.trajectory} #{v.step})" for v in list(steps.values())[:_CANDIDATES]]
        more = ", ..." if len(steps) > _CANDIDATES else ""
        raise VerifierdError(
            f"several steps have an id that begins with `{identity}`", hint=f"One of: {', '.join(known)}{more}"
        )
    return found[-1]


def policy_of(verdict: Verdict, given: Policy | None = None) -> Policy | None:
    """The very policy that decided, if it is still to be found.

    Raises:
        PolicyError: It was named, and is another one.
    """
    if given is not None and given.id != verdict.policy:
        raise PolicyError(
            f"the verdict was decided by {verdict.policy}; the policy given is now {given.id}",
            hint="Leave --policy out: what the verdict itself holds is explained all the same.",
        )
    name = verdict.policy.partition("@")[0]
    if given is None and name in policies.names():
        given = policies.load(name)
    return given if given is not None and given.id == verdict.policy else None


class Explanation:
    """Prints a verdict, part by part."""

    def __init__(
        self,
        screen: Console,
        verdict: Verdict,
        policy: Policy | None,
        alarm: StoredAlarm | None = None,
        labels: Sequence[Label] | None = None,
    ) -> None:
        self._screen = screen
        self._verdict = verdict
        self._policy = policy
        self._learnt = policy.calibration.learnt if policy is not None and policy.calibration is not None else None
        self._alarm = alarm
        self._labels = labels

    def show(self) -> None:
        """Print all."""
        verdict = self._verdict
        reason = REASONS.get(verdict.reason, verdict.reason)
        head = f"Step {verdict.step} of {one_line(verdict.trajectory)} is {_DECISIONS[verdict.verdict]}."
        self._screen.print(Text(head, style="bold"))
        self._part("why", [f"{reason} ({verdict.reason})", verdict.detail])
        self._part("where", [f"{verdict.origin.path}, at byte {verdict.origin.offset}", f"judged {verdict.time}"])
        self._part("action", [f"{verdict.tool} ({verdict.domain})", *self._quote(verdict.action)])
        self._compared()
        self._part("signals", map(_signal, verdict.signals), none="none")
        self._part("checked", self._checked())
        self._part("limits", self._thresholds())
        self._part("alarm", self._alarmed())
        if self._labels is not None:
            self._part("truth", _truth(self._labels), none="nobody has labelled this step")
        asked = f", model {verdict.model}" if verdict.model is not None else ", no model"
        self._part("decided", [f"by policy {verdict.policy}, predictors {verdict.predictor}{asked}"])
        self._part("ids", [f"verdict {verdict.verdict_id}", f"step    {verdict.step_id}"])

    def _part(self, name: str, rows: Iterable[str], *, none: str = "") -> None:
        """Rows behind the name of what they are about."""
        lead = f"{name:>9}   "
        for row in [row for row in rows if row] or ([none] if none else []):
            indented(self._screen, plain(row), Text(lead, style="cyan"))
            lead = " " * len(lead)

    def _quote(self, text: str) -> list[str]:
        """The first lines of a text."""
        lines = text.split("\n")
        more = [f"... {len(lines) - _CANDIDATES:,} more lines"] if len(lines) > _CANDIDATES else []
        return [f"$ {line}" if number == 0 else f"  {line}" for number, line in enumerate(lines[:_CANDIDATES])] + more

    def _compared(self) -> None:
        verdict = self._verdict
        if verdict.predicted is None:
            parts = (
                "no whole text, only parts of it" if verdict.coverage or verdict.signals else "nobody could predict it"
            )
            self._part("expected", [parts])
        elif verdict.predicted == verdict.observed:
            self._part("expected", ["exactly what came"])
        if not verdict.observed:
            self._part("observed", ["no text, or it is not quoted"])
            return
        for row in comparison(verdict):
            self._screen.print(row)

    def _checked(self) -> list[str]:
        verdict = self._verdict
        if verdict.observation_kind is not ObservationKind.ENV:
            return [
                f"nothing: the observation is {KINDS[verdict.observation_kind]}, and only the environment is judged"
            ]
        share = 100 * verdict.coverage
        if not share:
            rows = ["none of the observation's text was pinned: so far as was known, anything could have come"]
        elif share >= 100:
            rows = ["all of the observation's text was pinned and compared"]
        else:
            rest = f"the other {100 - share:.3g} % could be anything, so far as was known"
            rows = [f"{share:.3g} % of the observation's text was pinned and compared; {rest}"]
        rows.append("the exit status, too" if verdict.status_checked else "not the exit status")
        if verdict.tokens.scored:
            rows.append("a model's likelihood of all of it, which is a guess and no check")
        return rows

    def _thresholds(self) -> list[str]:
        verdict, policy = self._verdict, self._policy
        rows = []
        learnt = self._learnt
        if verdict.score is not None:
            score = f"score {verdict.score:.4g}"
            score += " of a model's surprise" if verdict.tokens.scored else " (0 is as predicted)"
            if verdict.threshold is not None:
                over = "above" if verdict.score > verdict.threshold else "not above"
                score += f", {over} {verdict.threshold:.4g}, which few clean steps of all tools exceed"
            rows.append(score)
        if verdict.p_value is not None:
            row = f"p-value {verdict.p_value:.4g}: so odd or odder are {100 * verdict.p_value:.3g} % of clean steps"
            if learnt is not None:
                row += f"; by that alone a step is off path up to {100 * learnt.step_alpha:g} %"
            rows.append(row)
        elif verdict.verdict is not VerdictKind.OFF_PATH:
            rows.append("no p-value: nothing to compare with clean steps" if learnt is not None else "")
        if policy is None:
            rows.append(f"min-coverage is unknown: {verdict.policy} is not at hand (name its file by --policy)")
        else:
            least = policy.rules(verdict).min_coverage or policy.min_coverage
            enough = "reached" if verdict.coverage >= least else "missed"
            rows.append(f"min-coverage {100 * least:g} % for on path: {enough} with {100 * verdict.coverage:.3g} %")
            if learnt is None:
                rows.append("the policy is not calibrated: only what is certain can be off path or alarm")
        return rows

    def _alarmed(self) -> list[str]:
        verdict, rows = self._verdict, []
        now, kept = verdict.alarm, self._alarm
        if now is not None:
            state = "raised at this step" if now.new else "raised before" if now.raised else "not raised"
            over = "above" if now.statistic > now.threshold else "not above"
            counts = self._policy is not None and (self._learnt is None or self._learnt.level is None)
            what = "contradictions so far," if counts else "evidence"
            rows.append(f"{state}: {what} {now.statistic:.4g}, {over} the level {now.threshold:.4g}")
            if now.new and now.statistic <= now.threshold:
                rows.append("what was contradicted is certain, and alarms whatever the evidence is")
            if self._policy is not None and not self._policy.alarms:
                rows.append("the policy only measures and never alarms")
        else:
            rows.append("this step changed nothing of the trajectory's evidence")
        first = kept.first_bad if kept is not None else now.first_bad if now is not None and now.raised else 0
        if kept is not None and (now is None or not now.new):
            rows.append(f"the trajectory alarmed at step {kept.step} (verdict {kept.id})")
        if first:
            rows.append(f"the suspected first bad step is {first}")
        if kept is not None:
            known = kept.acknowledged
            said = known and f"acknowledged {_time(known.time)} by {known.by or 'somebody'}"
            rows.append(f"{said}: {known.note}" if known and known.note else said or "nobody has acknowledged it")
        return rows


def _signal(signal: Signal) -> str:
    place = f" at characters {signal.span[0]} to {signal.span[1]}" if signal.span is not None else ""
    meaning = SIGNALS.get(signal.name, "")
    detail = f": {signal.detail}" if signal.detail else ""
    strength = "" if signal.value == 1.0 else f" {signal.value:.4g}"
    return f"{signal.name}{strength}{place}{f' ({meaning})' if meaning else ''}{detail}"


def _truth(labels: Sequence[Label]) -> list[str]:
    """What holds of all that was said of the step, then what does not, newest first."""
    now = holds(labels)
    others = [f"not any more: {_label(label)}" for label in reversed(labels) if label is not now]
    more = [f"and {counted(len(others) - _CANDIDATES, 'older label')}"] if len(others) > _CANDIDATES else []
    return [_label(now), *others[:_CANDIDATES], *more] if now is not None else [*others[:_CANDIDATES], *more]


def _label(label: Label) -> str:
    who = {"data": "the log itself", "file": "a label file"}.get(label.source, "somebody")
    who = f"{label.by} (by a label file)" if label.by and label.source == "file" else label.by or who
    undone = f", undone {_time(label.undone)}" if label.undone is not None else ""
    return f"{label.label}, says {who} {_time(label.time)}{f': {label.note}' if label.note else ''}{undone}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
