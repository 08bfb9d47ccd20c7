"""Facts about searches of the shell and of Claude Code's own tools."""

from typing import Any

import pytest

from tests.helpers import ran
from verifierd.contracts.calls import Call, parts
from verifierd.contracts.checks import pattern
from verifierd.contracts.document import bundled
from verifierd.contracts.engine import Contracts
from verifierd.contracts.facts.base import Finding
from verifierd.contracts.facts.search import FACTS
from verifierd.contracts.state.session import Session
from verifierd.types import Check

CONTRACTS = Contracts(bundled())


def _found(fact: str, command: str) -> list[Finding]:
    call = parts(ran(command), CONTRACTS.programs)[-1].stages[-1]
    assert isinstance(call, Call)
    return list(FACTS[fact](call, Session()))


def _accepts(findings: list[Finding], line: str) -> bool:
    (finding,) = findings
    return bool(pattern(finding.text or "").search(line))


@pytest.mark.parametrize(
    ("command", "line", "obeys"),
    [
        ("grep -n x f", "3:x", True),
        ("grep -n x f", "x", False),
        ("grep -n x f g", "f:3:x", True),
        ("grep -n x f g", "h:3:x", False),
        ("grep -n x src", "src/a.py:3:x", True),
        ("grep -on 'x*' f", "3+xx", True),
        ("grep -rn x src", "src/a.py:3:x", True),
        ("grep -rn x src", "lib/a.py:3:x", False),
        ("grep -rn x src/", "src//a.py:3:x", True),
        ("grep -rn x .", "./a.py:3:x", True),
        ("grep -rhn x src", "3:x", True),
        ("grep -Hn x f", "f:3:x", True),
        ("grep '^x' f*", "fa:x", True),
        ("grep '^x' f*", "fa:yx", False),
        ("grep -e a -e b f", "xb", True),
        ("grep -e a -e b f", "xc", False),
        ("grep -i name f", "NAME", True),
        ("grep -x 'a.c' f", "abc", True),
        ("fgrep 'a.c' f", "a.c", True),
        ("fgrep 'a.c' f", "abc", False),
        ("egrep 'a|b' f", "b", True),
        ("grep x f", "Binary file f matches", True),
        ("grep x f", "grep: f: binary file matches", True),
        ("git grep x", "a/b.c:x", True),
        ("git grep -n x", "a/b.c:3:7:x", True),
        ("rg x src lib", "lib/a.c:x", True),
        ("rg --no-heading x src lib", "etc/a.c:x", False),
        ("rg -n x src lib", "src/a.c", True),
        ("rg -n x src lib", "3:x", True),
        ("rg -n x src lib", "etc/a.c:3:x", False),
        ("rg -n x src lib", "etc/a.c", False),
        ("rg Name f", "name", False),
        ("rg name f", "NAME", True),
        ("cat f | rg -n x", "3:x", True),
        ("cat f | rg -n x", "f:3:x", False),
        ("rg -n x src", "src\\a.c:3:x", True),
        ("rg x f", "f:3:[Omitted long line with 1 matches]", True),
    ],
)
def test_lines_that_match(command: str, line: str, *, obeys: bool) -> None:
    """A line has the form of the search's lines and matches its pattern."""
    assert _accepts(_found("search-matching", command), line) is obeys


@pytest.mark.parametrize(
    ("fact", "command"),
    [
        ("search-matching", "grep $x f"),
        ("search-matching", "grep -f patterns f"),
        ("search-matching", "grep 'done!' f"),
        ("search-matching", "grep -v x f"),
        ("search-matching", "grep -A3 x f"),
        ("search-matching", "grep -c x f"),
        ("search-matching", "grep -q x f"),
        ("search-matching", "grep --null x f"),
        ("search-matching", "grep --color=always x f"),
        ("search-matching", "git grep 'f(x)'"),
        ("search-matching", "git grep -W x"),
        ("search-matching", "rg --json x"),
        ("search-matching", "rg -r y x f"),
        ("search-matching", "rg --heading x"),
        ("search-matching", "rg --files src"),
        ("search-surrounded", "grep -A3 x f"),
        ("search-begun", "grep -B3 x f"),
        ("search-begun", "grep -A3 '^$' f"),
        ("search-among", "grep -n -B3 x f"),
        ("search-numbered", "grep -v x f"),
        ("search-listed", "grep -l x"),
        ("search-listed", "grep -rl x ."),
        ("search-excluded", "grep -v '^x' f"),
        ("search-excluded", "grep -v 'a.c' f"),
        ("search-excluded", "grep -vw x f"),
        ("search-excluded", "grep -v x f g"),
        ("search-nothing", "grep -s x f"),
        ("search-nothing", "grep x f 2>/dev/null"),
        ("search-nothing", "grep -c x f"),
        ("search-nothing", "cat f | grep x"),
        ("search-something", "grep '^$' f"),
        ("search-something", "grep -v x f"),
        ("search-something", "grep -on 'x*' f"),
        ("search-something", "grep ' ' f"),
    ],
)
def test_nothing_is_said_where_it_is_not_certain(fact: str, command: str) -> None:
    """What is not spelt out, or is read otherwise elsewhere, gives no finding."""
    assert _found(fact, command) == []


@pytest.mark.parametrize(
    ("fact", "command", "line", "obeys"),
    [
        ("search-surrounded", "grep -n -C1 x f", "2-y", True),
        ("search-surrounded", "grep -n -C1 x f", "--", True),
        ("search-surrounded", "grep -n -3 x f", "3:x", True),
        ("search-surrounded", "grep -n -C1 x f", "3:y", False),
        ("search-begun", "grep -A3 x f", "ax", True),
        ("search-begun", "grep -A3 x f", "y", False),
        ("search-numbered", "grep -vn x f", "3:y", True),
        ("search-numbered", "grep -vn x f", "y", False),
        ("search-counted", "grep -c x f", "12", True),
        ("search-counted", "grep -c x f", "g:12", False),
        ("search-counted", "grep -rc x src", "src/a:0", True),
        ("search-listed", "grep -rl x src lib", "lib/a", True),
        ("search-listed", "grep -rl x src lib", "libs/a", False),
        ("search-listed", "grep -rl --include='*.py' x .", "./a/b.py", True),
        ("search-listed", "grep -rl --include='*.py' x .", "./a/b.go", False),
        ("search-listed", "rg --files docs", "docs/a.md", True),
        ("search-excluded", "ls | grep -v tmp", "a tmp", True),
    ],
)
def test_other_forms(fact: str, command: str, line: str, *, obeys: bool) -> None:
    """Numbers, counts, paths, and what `-v` leaves out."""
    assert _accepts(_found(fact, command), line) is obeys


def _checks(command: str) -> dict[str, int | None]:
    constraints = CONTRACTS.constraints(Session(), ran(command))
    return {constraint.rule: constraint.low for constraint in constraints if constraint.rule.startswith("search-")}


def test_a_search_need_not_find_anything_if_its_status_is_lost() -> None:
    """Only where the step's status is the search's own does success mean that it printed a line."""
    assert _checks("grep x f")["search-something"] == 1
    assert _checks("cd /v && grep x f")["search-something"] == 1
    assert _checks("grep x f; true").get("search-something") is None
    assert _checks("grep x f | cat").get("search-something") is None
    assert "search-begins" not in _checks("grep -A1 x f || true")
    assert "search-nothing" in _checks("grep x f")
    assert "search-nothing" not in _checks("grep x f; grep y f")
    assert "search-nothing" not in _checks("! grep x f")


def test_a_filter_that_is_given_files_reads_those() -> None:
    """What is known of its standard input says nothing of what it prints."""
    kept = CONTRACTS.constraints(Session(), ran("git log --oneline | grep fix"))
    lost = CONTRACTS.constraints(Session(), ran("git log --oneline | grep fix notes.txt"))

    assert "git-log-oneline" in {constraint.rule for constraint in kept if constraint.check is Check.EVERY_LINE}
    assert "git-log-oneline" not in {constraint.rule for constraint in lost}


def _tool(fact: str, **fields: Any) -> list[Finding]:
    fields = {name.replace("_dash_", "-"): value for name, value in fields.items()}
    name = "Glob" if fact.startswith("glob") else "Grep"
    return list(FACTS[fact](Call(name=name, tool=True, input=fields, cwd="/w"), Session()))


CONTENT = {"output_mode": "content", "_dash_n": True}


@pytest.mark.parametrize(
    ("fields", "line", "obeys"),
    [
        ({"pattern": "^x"}, "a.go:3:x", True),
        ({"pattern": "^x"}, "a.go:3: x", False),
        ({"pattern": "x", "path": "a.go"}, "3:x", True),
        ({"pattern": "x", "path": "src/cli"}, "src/cli/a.go:3:x", True),
        ({"pattern": "x", "path": "src/cli"}, "cli/a.go:3:x", True),
        ({"pattern": "x", "path": "src/cli"}, "/w/src/cli/a.go:3:x", True),
        ({"pattern": "x", "path": "src/cli"}, "src/lib/a.go:3:x", False),
        ({"pattern": "x", "path": "/w"}, "src/lib/a.go:3:x", True),
        ({"pattern": "x", "path": "/v/u"}, "../v/u/a.go:3:x", True),
        ({"pattern": "x", "path": "D:\\w\\src"}, "src\\a.go:3:x", True),
        ({"pattern": "x", "glob": "*.{ts,tsx}"}, "src/a.tsx:3:x", True),
        ({"pattern": "x", "glob": "*.{ts,tsx}"}, "src/a.go:3:x", False),
        ({"pattern": "x", "type": "go"}, "a.go:3:x", True),
        ({"pattern": "x", "type": "go"}, "a.ts:3:x", False),
        ({"pattern": "X", "_dash_i": True}, "a.go:3:x", True),
        ({"pattern": "x"}, "a.go:3:[Omitted long matching line]", True),
        ({"pattern": "x"}, "No matches found", True),
    ],
)
def test_lines_of_grep(fields: dict[str, Any], line: str, *, obeys: bool) -> None:
    """They match, and are where and of the kind that it was told."""
    assert _accepts(_tool("grep-tool-matching", **CONTENT, **fields), line) is obeys


@pytest.mark.parametrize(
    ("fact", "fields"),
    [
        ("grep-tool-matching", {**CONTENT, "pattern": "x", "multiline": True}),
        ("grep-tool-matching", {**CONTENT, "pattern": "x", "case": "any"}),
        ("grep-tool-matching", {**CONTENT, "pattern": "x", "_dash_A": 3}),
        ("grep-tool-matching", {"pattern": "x"}),
        ("grep-tool-among", {"pattern": "x", "output_mode": "content", "_dash_B": 30, "head_limit": 10}),
        ("grep-tool-among", {"pattern": "x", "output_mode": "content", "_dash_C": 3, "offset": 10}),
        ("grep-tool-surrounded", {"pattern": "x", "output_mode": "content", "_dash_C": 3}),
        ("grep-tool-limited", {"pattern": "x", "head_limit": 0}),
        ("grep-tool-listed", {"pattern": "x", "glob": "!*.go"}),
        ("glob-tool-matching", {"pattern": "**/*"}),
        ("glob-tool-matching", {"pattern": "app/[id]/page.tsx"}),
        ("glob-tool-matching", {"pattern": "src/"}),
        ("glob-tool-placed", {"pattern": "*.go"}),
        ("glob-tool-placed", {"pattern": "/v/*.go", "path": "/w/a/b"}),
    ],
)
def test_nothing_is_said_of_a_tool_where_it_is_not_certain(fact: str, fields: dict[str, Any]) -> None:
    """Other tools of the same name, patterns over several lines, cut results and odd globs."""
    assert _tool(fact, **fields) == []


@pytest.mark.parametrize(
    ("text", "path", "obeys"),
    [
        ("**/*.go", "/w/a/b.go", True),
        ("**/*.go", "b.go", True),
        ("**/*.go", "b.py", False),
        ("src/**/x*.{ts,js}", "/w/src/a/b/xy.js", True),
        ("src/**/x*.{ts,js}", "src\\xy.js", True),
        ("src/**/x*.{ts,js}", "lib/xy.js", False),
        (".claude/skills/**", ".claude/skills/a/SKILL.md", True),
        ("/w/a/**/*.md", "a/b.md", True),
        ("a?.go", "ab.go", True),
        ("a?.go", "abc.go", False),
        ("*.go", "No files found", True),
        ("*.go", "(Results are truncated. Consider using a more specific path or pattern.)", True),
    ],
)
def test_paths_of_glob(text: str, path: str, *, obeys: bool) -> None:
    """They end as the glob says, whatever directory they are shown from."""
    assert _accepts(_tool("glob-tool-matching", pattern=text), path) is obeys


def test_a_hostile_pattern_costs_nothing() -> None:
    """Patterns that blow up elsewhere are RE2's, which takes linear time."""
    (found,) = _found("search-matching", "grep -E '(a*)*(a|aa)+$' f")

    assert not _accepts([found], "a" * 20_000 + "b")
