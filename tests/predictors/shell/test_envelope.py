"""The allow-list of the virtual shell."""

from pathlib import Path

import pytest
from bashkit import Bash

from verifierd.bundled import root
from verifierd.commandline.reading import Unread, read
from verifierd.errors import PolicyError
from verifierd.predictors.shell.envelope import Envelope, template
from verifierd.predictors.shell.patterns import pattern
from verifierd.predictors.shell.programs import awk, sed
from verifierd.predictors.shell.units import units

BASH = Bash()


@pytest.fixture(scope="module")
def envelope() -> Envelope:
    """The shipped document."""
    return Envelope.load((root("policies") / "shell" / "gnu.toml").read_text(encoding="utf-8"))


def refusal(envelope: Envelope, command: str) -> str | None:
    """Why a command is refused before running."""
    return envelope.refuse_command(BASH.analyze(command), command)


@pytest.mark.parametrize(
    "command",
    [
        "pwd",
        "tar cf all.tar src",
        "mkdir -p src/lib && cd src/lib && pwd",
        "echo 'a b' > notes.txt; cat notes.txt",
        "cat > x.py <<'EOF'\nprint(`$x`)\nEOF",
        "sort words.txt | uniq -c | sort -rn | head -n 3",
        "grep -rn TODO src | sort",
        "awk -F, 'NR>1 {s+=$3} END {print s}' people.csv",
        "sed -i 's/alpha/beta/g' x.py",
        'for i in 1 2 3; do echo "item $i" > f_$i.txt; done',
        "if [ -f a.txt ]; then echo yes; else echo no; fi",
        "find . -name '*.py' | sort",
        "x=5; echo $((x * 2)) ${x:-none}",
        "false; echo $?",
        "cat missing.txt 2>/dev/null || echo none",
    ],
)
def test_everyday_commands_are_certified(envelope: Envelope, command: str) -> None:
    """What agents do all day is on the list."""
    assert refusal(envelope, command) is None


@pytest.mark.parametrize(
    "command",
    [
        "date",
        "ls -l",
        "cp -v a b",
        "mkdir -v d",
        "echo $RANDOM",
        "echo $$",
        "echo $?",
        "sleep 1 &",
        "eval 'echo x'",
        "$cmd x",
        "python3 x.py",
        "./run.sh",
        "cat <(ls)",
        "sed 's/a/b/w out' f",
        'sed "s/$x/y/" f',
        "awk '{print > \"out\"}' f",
        "awk 'BEGIN {srand(); print rand()}'",
        "grep -P '\\d' f",
        "grep 'a\\d' f",
        "cat",
        "cat 2> errors.txt f",
        "touch /usr/bin/x",
        "chmod 000 f",
        "PATH=/x ls",
        "LC_ALL=C sort f",
        "ls -t",
        "sort -R f",
        "find . -type f > list.txt",
        "cat $unknown",
        "cp f f",
        "mv d d/inner",
        "trap 'echo x' EXIT",
        "shopt -s globstar",
        "tar cf all.tar .",
        "awk 'BEGIN { print 2**3 }'",
        "awk '{ x **= $1 } END { print x }' numbers",
        "tar -czf src/all.tgz src",
        "cp -n old.txt new.txt",
        "jq --arg a b . f",
        "printf '%d\\n' abc",
        "rm () { echo no; }; rm x",
        "echo `date`",
        "whoami",
        "head -n x f",
    ],
)
def test_what_is_not_certified_is_refused(envelope: Envelope, command: str) -> None:
    """Nondeterminism, unknown programs and options, and every form that is not understood are refused."""
    assert refusal(envelope, command) is not None


def test_words_by_expansion_need_a_known_value(envelope: Envelope) -> None:
    """A file name from a variable is fine only if the variable is known to be no option and not empty."""
    command = 'cat "$f"'
    analysis = BASH.analyze(command)
    assert envelope.refuse_command(analysis, command) == "operand $f"
    assert envelope.refuse_command(analysis, command, values={"f": "a.txt"}) is None
    assert envelope.refuse_command(analysis, command, values={"f": "-n"}) is not None
    assert refusal(envelope, 'f=a.txt; cat "$f"') is None
    assert refusal(envelope, 'f=-n; cat "$f"') is not None
    assert refusal(envelope, 'for f in *.txt; do cat "$f"; done') is None


def test_a_function_must_be_known(envelope: Envelope) -> None:
    """A call of a function is certified where its definition was seen."""
    assert refusal(envelope, "greet you") == "command greet"
    assert envelope.refuse_command(BASH.analyze("greet you"), "greet you", functions={"greet"}) is None


def test_unknown_messages_are_refused(envelope: Envelope) -> None:
    """An error message passes if its template is certified, quoted names aside."""
    analysis = BASH.analyze("cat x")
    fine = "cat: x: No such file or directory\n"
    assert envelope.refuse_output(analysis, "cat x", "", fine) is None
    assert envelope.refuse_output(analysis, "cat x", "", "cat: x: io error: surprise\n") is not None
    assert envelope.refuse_output(analysis, "cat x", "", "bash: line 1: execution limit exceeded\n") is not None


def test_order_of_output_and_errors_is_refused_where_one_command_writes_both(envelope: Envelope) -> None:
    """`cat a missing` may print in either order; a list of commands may not."""
    error = "cat: b: No such file or directory\n"
    for command, refused in (("cat a b", True), ("cat b; echo a", False), ("cat b | wc -l", True)):
        reason = envelope.refuse_output(BASH.analyze(command), command, "a\n", error)
        assert (reason is not None) is refused, command


def test_walks_are_fine_with_one_line_or_sorted(envelope: Envelope) -> None:
    """The order of a directory walk is the file system's, so two lines of it are refused."""
    for command, stdout, refused in (
        ("find . -type f", "./a\n./b\n", True),
        ("find . -type f", "./a\n", False),
        ("find . -type f | sort", "./a\n./b\n", False),
        ("grep -r x .", "./a:x\n./b:x\n", True),
    ):
        assert (envelope.refuse_output(BASH.analyze(command), command, stdout, "") is not None) is refused, command


def test_orders_that_depend_on_the_locale_are_refused(envelope: Envelope) -> None:
    """Upper case before lower case is C's order only, unless the session is known to use it."""
    analysis = BASH.analyze("ls")
    assert envelope.refuse_output(analysis, "ls", "a.txt\nb.txt\n", "") is None
    assert envelope.refuse_output(analysis, "ls", "README.md\nbin\n", "") == "order depends on the locale"
    assert envelope.refuse_output(analysis, "ls", "README.md\nbin\n", "", collated=True) is None
    nested = "src:\na\nb\n\nsrc/a:\nx\n"
    assert envelope.refuse_output(BASH.analyze("ls -R src"), "ls -R src", nested, "") is None


def test_files_are_compared_only_if_they_can_be_looked_at(envelope: Envelope) -> None:
    """`diff` needs files that are known to end with a newline, and `comm` sorted ones."""
    for command, files, refused in (
        ("diff a b", None, True),
        ("diff a b", {"a": "x\n", "b": ""}, False),
        ("diff a b", {"a": "x", "b": "x\n"}, True),
        ("comm a b", {"a": "x\ny\n", "b": "x\n"}, False),
        ("comm a b", {"a": "y\nx\n", "b": "x\n"}, True),
    ):
        look = None if files is None else files.get
        reason = envelope.refuse_output(BASH.analyze(command), command, "", "", look=look)
        assert (reason is not None) is refused, (command, files)


def test_errors_in_the_output_must_stand_alone(envelope: Envelope) -> None:
    """With `2>&1` an error text is part of the output, and is held to the same templates."""
    command = "cat x 2>&1"
    analysis = BASH.analyze(command)
    assert envelope.refuse_output(analysis, command, "cat: x: No such file or directory\n", "") is None
    assert envelope.refuse_output(analysis, command, "cat: x: some other trouble\n", "") is not None


def test_repair_gives_gnu_wording(envelope: Envelope) -> None:
    """The virtual shell's own wordings become those of GNU tools; others stay."""
    assert envelope.repair("mkdir: cannot create directory 'x': File exists\n", "/p") == (
        "mkdir: cannot create directory ‘x’: File exists\n"  # noqa: RUF001 - GNU's quotes
    )
    assert envelope.repair("wc: /p/x: No such file or directory\n", "/p") == "wc: x: No such file or directory\n"
    assert envelope.repair("cat: x: Is a directory\n", "/p") == "cat: x: Is a directory\n"


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("cat a | grep x > /dev/null", True),
        ("git status && git log --oneline", True),
        ("ls -la; date; du -sh .", True),
        ("python3 --version", True),
        ("find . -name '*.py'", True),
        ("awk '{print $1}' f", True),
        ("echo x > f", False),
        ("x=1", False),
        ("cd d", False),
        ("sed -i s/a/b/ f", False),
        ("sed -n 's/a/b/w out' f", False),
        ("sort -o f f", False),
        ("find . -delete", False),
        ("find . -exec rm {} +", False),
        ("awk '{print > \"x\"}' f", False),
        ("uniq a b", False),
        ("git commit -m x", False),
        ("python3 x.py", False),
        ("echo $((x++))", False),
        ("echo ${x:=1}", False),
        ("printf -v x 1", False),
        ("f() { ls; }", False),
        ("cat f | tee g", False),
        ("echo $(rm f)", False),
    ],
)
def test_read_only(envelope: Envelope, command: str, reads: bool) -> None:  # noqa: FBT001 - a table
    """A script is read-only only if none of its commands can change a file or the shell."""
    assert envelope.is_read_only(BASH.analyze(command), command) is reads


def test_only_reading(envelope: Envelope) -> None:
    """What is not certified may be known to read all the same; what may write is not."""
    for command, reads in (
        ("make", False),
        ("date > f", False),
        ("date", True),
        ("touch f", False),
        ("cp -v a b", False),
    ):
        assert envelope.is_read_only(BASH.analyze(command), command) is reads, command


def test_the_reader_knows_where_words_end() -> None:
    """Quotes, expansions, here-documents and nested substitutions are read as bash reads them."""
    script = read("cat <<EOF | grep \"a b\" > \"$out\"\n$x ${y:-z} $(pwd)\nEOF\necho 'it'\\''s' # rest")
    names = sorted(str(command.name.text) for command in script.commands if command.name is not None)
    assert names == ["cat", "echo", "grep", "pwd"]
    assert script.names == {"out", "x", "y"}
    assert script.commands[-1].args[0].text == "it's"


@pytest.mark.parametrize(
    "text", ["echo `x`", "echo 'x", "if true", "a & b", "(", "case x in", "cat <<EOF\nx", "echo ${x@Q}"]
)
def test_what_the_reader_does_not_know_it_refuses(text: str) -> None:
    """Forms outside the reader's grammar are refused, not guessed."""
    with pytest.raises(Unread):
        read(text)


def test_ways_of_writing_options_are_one_unit() -> None:
    """Bundled, separate, and attached values are the same unit."""
    forms = ["sort -t, -k2n f", "sort -t , -k 2n f", "sort -k2n -t ',' f"]
    assert len({frozenset(unit for unit in units(form).used if unit.startswith("command")) for form in forms}) == 1


def test_programs_are_read_into_features() -> None:
    """Addresses, flags and functions of programs show up as features."""
    assert sed("2,5p;s/a/b/g") == {"N,Np", "s", "s flags g", "several commands"}
    assert {"NR", "+=", "$N", "END", "print"} <= awk("NR>1 {s+=$2} END {print s}")
    assert "| overlapping" in pattern("a|ab", extended=True)
    assert "|" in pattern("foo|bar", extended=True)
    for wrong in ("a**", "(?:x)", "a{2", "[a\\]"):
        with pytest.raises(Unread):
            pattern(wrong, extended=True)


def test_templates_leave_names_out() -> None:
    """Messages that differ in names and quotes only have one template; line numbers above 1 are their own kind."""
    assert template("cat: a/b.txt: Is a directory") == template("cat: 'x y': Is a directory")
    assert (
        template("bash: line 1: cd: x: No such file or directory") == "bash: line 1: cd: P: No such file or directory"
    )
    assert template("bash: line 7: cd: x: Not a directory") == "bash: line N: cd: P: Not a directory"


def test_a_document_of_another_kind_is_an_error() -> None:
    """A document without units, or that is no TOML, is a policy error."""
    for text in ("x = 1", "not toml ["):
        with pytest.raises(PolicyError):
            Envelope.load(text)


def test_the_document_is_for_the_installed_version() -> None:
    """The shipped list was made with the pinned virtual shell."""
    import bashkit  # noqa: PLC0415 - only this test needs the package's version

    text = Path(str(root("policies") / "shell" / "gnu.toml")).read_text(encoding="utf-8")
    assert f'bashkit = "{bashkit.__version__}"' in text
