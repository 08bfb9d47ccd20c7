"""Where verdicts go: a file (`jsonl`), the log (`events`), memory (`recent`). The daemon opens those it wants.

Verdicts arrive committed, in the order of `seq`, and sanitised: no sink redacts, and none sees what may not leave.
"""
