"""Trajectories whose truth is known: readers of published sets, and of label files that anyone can write.

A set is a folder with `cases.jsonl.gz` (a line a case, `{"case_id", "raw"}`, raw as published) and `labels.jsonl` (a line
a case; its truth never stands in a case), or with `overlays.jsonl.gz`. Which set it is shows in its content. What a
label means differs, and two truths are never pooled:

| set | known by | truth | what a label says |
|---|---|---|---|
| agentdojo | `steps` | environment | An attacker's text stands in the observation. The actions are those of the clean twin. A step that only differs from the twin (a file size, say) is neither clean nor bad. |
| tau, annotated | `traj` | agent | People marked each failure of a failed run; a run with reward 1 is clean by its outcome alone. |
| tau, outcome only | `traj` | agent | The reward alone: a failed run says nothing of its steps. |
| hotpotqa | `messages` | agent | People judged each turn: right, wrong, or neutral, which is not judged. |
| whowhen | `history` | agent | All runs failed; one step decided it. Nothing says that the others are right, so none is judged, and there is no false-positive rate. Part of the runs have a second, independent label: the two agree on the step in about a third of them. |
| overlays | `base_case_id` | environment | One observation of a clean run replaced: by a fault, or by a change that must not alarm. The agent does not react, so nothing after that step is to be scored. |

Positions are the set's own, counted from 0: entries of the list that the second column names. A label may sit on an entry
that is no call of a tool, as what the agent said to a person; then no step carries it, and `Marked.unplaced` counts it.
"""  # noqa: E501 - a table

from verifierd.replay.labelled.base import Labelled, Marked, Outcome, Overlay, Truth
from verifierd.replay.labelled.labels import StepLabel, marked, marked_by_logs, read_labels
from verifierd.replay.labelled.sets import is_set, read_set

__all__ = (
    "Labelled",
    "Marked",
    "Outcome",
    "Overlay",
    "StepLabel",
    "Truth",
    "is_set",
    "marked",
    "marked_by_logs",
    "read_labels",
    "read_set",
)
