"""What certification tries: file trees, and the command lines of policies/shell/cases.txt in them.

Everything is drawn from one seeded generator; the document says how its lines are written.
"""

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from verifierd.bundled import root

__all__ = ("Case", "cases", "tree")

WORDS = (
    "amber",
    "birch",
    "cobalt",
    "delta",
    "ember",
    "fjord",
    "granite",
    "harbor",
    "indigo",
    "jasper",
    "kelp",
    "lumen",
)
_NAMES = ("notes", "main", "data-1", "report_2", "Index", "config", "a1", "zeta", "util.test", "x")
_SUFFIXES = (".txt", ".py", ".md", ".log", "", ".cfg")
_FOLDERS = ("src", "docs", "lib-2", "Assets", "pkg", "t_1")
# What lines of real files hold, and programs may stumble over.
_ODD = (
    r"C:\tmp\new",
    "a * b ? [c]",
    "100% $HOME",
    'it\'s "quoted"',
    "  two  blanks  ",
    "x\ty",
    "#!/bin/sh",
    "a=1;b=2",
    "<tag/>",
    "-n flag",
)

_SECTION = re.compile(r"\[(?P<kind>list|run|mix) (?P<name>[^\]]+)\]")
_CHOICE = re.compile(r"«([^«»]*)»")
_OPTIONS = re.compile(r"⟦([^⟧]*)⟧")
_ANY = re.compile(r"\{\?(\w+)\}")
_MARKS = "①②③"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try: a command in a tree (paths with their text; None is a directory, `-> x` a link to x)."""

    command: str
    tree: Mapping[str, str | None]


def cases(seed: int, sample: int | None = None) -> Iterator[Case]:
    """Every case of certification, or so many drawn from them; the order and each case depend on the seed alone."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    lines = list(_lines_of_document(rng))
    if sample is not None:
        lines = rng.sample(lines, min(sample, len(lines)))
    for line in lines:
        found, letters = tree(rng)
        yield Case(command=_fill(line, letters, rng), tree=found)


def _lines_of_document(rng: random.Random) -> Iterator[str]:
    text = (root("policies") / "shell" / "cases.txt").read_text(encoding="utf-8")
    lists: dict[str, list[str]] = {}
    kind, lines, times = "", list[str](), 0
    for line in text.splitlines():
        if match := _SECTION.match(line):
            kind = match["kind"]
            lines = lists.setdefault(match["name"], []) if kind == "list" else []
            times = 0 if kind == "list" else int(match["name"])
        elif not line or (not kind and line.startswith("#")):
            continue
        elif kind == "run":
            for choice in _choices(line, lists):
                yield from itertools.repeat(choice, times)
        else:
            lines.append(line)
    for _ in range(times if kind == "mix" else 0):
        frame = rng.choice(lines)
        for mark in _MARKS:
            frame = frame.replace(mark, rng.choice(lists["part"]))
        yield frame


def _choices(line: str, lists: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The line with each combination of its choices."""
    match = _CHOICE.search(line)
    if not match:
        yield line
        return
    for option in match[1].split("¦"):
        if option.startswith("@"):
            ways: Sequence[str] = lists[option[1:]]
        elif option.startswith("^"):
            most, *words = option[1:].split(" ")
            sizes = range(1, int(most) + 1)
            ways = [" ".join(chosen) for size in sizes for chosen in itertools.combinations(words, size)]
        else:
            ways = [option]
        for way in ways:
            yield from _choices(line[: match.start()] + way + line[match.end() :], lists)


def _fill(line: str, letters: Mapping[str, str], rng: random.Random) -> str:
    """A line of the document as a command in a tree."""
    text = _OPTIONS.sub(lambda match: _spell(match[1], rng), line).replace("⏎", "\n")
    text = _ANY.sub(lambda match: letters[rng.choice(match[1])], text)
    text = re.sub(r"\{N\}", lambda _: str(rng.randint(1, 9)), text)
    return re.sub(r"\{(\w)\}", lambda match: letters.get(match[1], match[0]), text)


def _spell(options: str, rng: random.Random) -> str:
    """Options in one of the ways people write them: values attached or not, letters bundled or not."""
    words = re.findall(r"'[^']*'|\S+", options)
    out: list[str] = []
    while words:
        word = words.pop(0)
        value = words.pop(0) if words and not re.match(r"-[a-zA-Z-]", words[0]) else None
        if value is not None:
            out.append(f"{word}{'' if rng.random() < 0.4 else ' '}{value}")
        elif out and rng.random() < 0.5 and re.fullmatch(r"-[A-Za-z]+", out[-1]) and re.fullmatch("-[A-Za-z]", word):
            out[-1] += word[1:]
        else:
            out.append(word)
    return " ".join(out)


def tree(rng: random.Random) -> tuple[dict[str, str | None], dict[str, str]]:
    """A file tree, and what the letters of templates stand for in it."""
    stems = rng.sample(_NAMES, 9)
    names = [stem + rng.choice(_SUFFIXES) for stem in stems]
    folders = rng.sample(_FOLDERS, 3)
    words = [rng.choice(WORDS) for _ in range(rng.randint(6, 14))]
    keyed = sorted({f"{rng.choice(WORDS)} {rng.randint(1, 9)}" for _ in range(7)})
    other = sorted({f"{rng.choice(WORDS)} {rng.randint(1, 9)}" for _ in range(7)})
    rows = [f"{word},{rng.randint(18, 80)},{rng.choice(WORDS)}" for word in rng.sample(WORDS, 6)]
    thing = {
        "name": rng.choice(WORDS),
        "count": rng.randint(0, 20),
        "ok": rng.random() < 0.5,
        "tags": rng.sample(WORDS, 3),
        "items": [{"id": i, "kind": rng.choice(["a", "b"]), "price": rng.choice([1, 2.5, 10])} for i in range(1, 4)],
        "nested": {"key": {"deep": rng.choice(WORDS)}},
    }
    spaced = f"{rng.choice(WORDS)} {rng.choice(WORDS)}.txt"
    found: dict[str, str | None] = {}

    def put(name: str, lines: Sequence[str], end: str = "\n") -> str:
        found[name] = "\n".join(lines) + (end if lines else "")
        return name

    letters = {
        "f": put(names[0], _text(rng, rng.randint(3, 9))),
        "g": put(names[1], _text(rng, rng.randint(2, 6))),
        "e": put("empty" + rng.choice(_SUFFIXES), []),
        "n": put(names[2], [*_text(rng, rng.randint(1, 3)), rng.choice(WORDS)], ""),
        "l": put(names[3], [str(i) for i in range(1, rng.randint(60, 140))]),
        "w": put(names[4], words),
        "u": put(names[5], [str(rng.randint(-20, 300)) for _ in range(8)]),
        "c": put(names[6], ["name,age,city", *rows]),
        "s": put(names[7], keyed),
        "t": put(names[8], other),
        "j": put("doc.json", [json.dumps(thing, indent=rng.choice([None, 2]))]),
        "o": put(spaced, _text(rng, 3)),
        "d": folders[0],
        "D": folders[1],
        "k": folders[2],
        "m": "missing" + rng.choice(_SUFFIXES),
        "M": "nowhere",
        "W": rng.choice(WORDS),
        "V": rng.choice(WORDS),
    }
    if rng.random() < 0.4:
        put(".hidden", _text(rng, 2))
    if rng.random() < 0.25:
        found["alias"] = f"-> {names[0]}"
    if rng.random() < 0.2:
        found["dlink"] = f"-> {folders[0]}"
    letters["x"] = put(f"{folders[0]}/{rng.choice(_NAMES)}.txt", _text(rng, 4))
    put(f"{folders[0]}/b.py", _text(rng, 3))
    put(f"{folders[0]}/deep/C.md", _text(rng, 2))
    put(f"{folders[1]}/one.txt", _text(rng, 2))
    found[folders[2]] = None
    letters["y"] = f"{letters['M']}/{rng.choice(_NAMES)}"
    letters["z"] = f"{letters['f']}/inner"
    letters["o"] = f"'{spaced}'"
    return found, letters


def _text(rng: random.Random, count: int) -> list[str]:
    forms: list[Callable[[], str]] = [
        lambda: " ".join(rng.choices(WORDS, k=rng.randint(1, 5))),
        lambda: f"{rng.choice(['INFO', 'WARN', 'ERROR'])} {rng.choice(WORDS)} code={rng.randint(1, 999)}",
        lambda: f"{rng.choice(WORDS)} = {rng.randint(0, 99)}",
        lambda: f"    return {rng.choice(WORDS)}({rng.randint(0, 9)}, 'x')  # TODO {rng.choice(WORDS)}",
        lambda: f"def {rng.choice(WORDS)}_{rng.randint(1, 9)}(x):",
        lambda: f"{rng.choice(WORDS).title()}: {rng.choice(WORDS)}@{rng.choice(WORDS)}.org",
        lambda: "",
        lambda: f"{rng.choice(WORDS)} {rng.randint(0, 40)}.{rng.randint(0, 99):02} {rng.choice(WORDS)}",
        lambda: rng.choice(_ODD),
        lambda: f"{rng.choice(WORDS)}\t{rng.randint(1, 50)}\t{rng.choice(WORDS)}",
        lambda: f"v{rng.randint(0, 3)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}-{rng.choice(WORDS)}",
    ]
    return [rng.choice(forms)() for _ in range(count)]
