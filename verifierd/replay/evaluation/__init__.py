"""False positives and false negatives against labels and injected faults: the work of `verifierd eval`.

    cases.py      trajectories, labels and injected changes -> cases, each one observation whose truth is known
    judging.py    cases -> rows: what a judge says of each, and what the controls say
    controls.py   what simple means make of the same cases
    table.py      rows -> figures with intervals, as JSON; several judges on the same cases, paired
    sections.py   figures of one judge -> sections of a report
    report.py     sections, mistakes, judges compared -> one HTML file

Three truths, never pooled: the environment diverged (faults, labels of observations), the agent erred (labels of
actions), the simulator was wrong (its failures, and false alarms on clean steps).
"""
