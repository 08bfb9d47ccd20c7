"""What every real step must obey: rules that are documents, and the engine that applies them.

document.py   the documents: rules with their support and examples
calls.py      step -> calls: a tool, or the parts of a command line
state/        what a session has shown: files, repository, shapes of results, its own habits
facts/        call, session -> what a rule says here: counts, patterns, names, known lines
compose.py    constraints of parts -> constraints of the whole observation
checks.py     constraint, observation -> obeyed, violated, out of force, with spans
engine.py     all of this, in order
"""
