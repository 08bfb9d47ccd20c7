"""How a command line's parts are joined."""

import pytest

from verifierd.commandline.reading import Command, Compound, Unread, read


def _said(text: str) -> list[tuple[str, list[str | None]]]:
    """Each pipeline's link and the names of its stages; a compound's kind in brackets."""
    return [
        (
            pipeline.link,
            [
                stage.name.text if isinstance(stage, Command) and stage.name else f"[{getattr(stage, 'kind', '=')}]"
                for stage in pipeline.stages
            ],
        )
        for pipeline in read(text).pipelines
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ls", [(";", ["ls"])]),
        ("cd x && git log 2>&1 | head -5; pwd", [(";", ["cd"]), ("&&", ["git", "head"]), (";", ["pwd"])]),
        ("a || b\nc", [(";", ["a"]), ("||", ["b"]), (";", ["c"])]),
        ("(cd x; ls) && b", [(";", ["[(]"]), ("&&", ["b"])]),
        ("for i in 1 2; do a; done | sort", [(";", ["[for]", "sort"])]),
        ("x=$(a; b); c", [(";", ["[=]"]), (";", ["c"])]),
        ("if a; then b; fi", [(";", ["[if]"])]),
    ],
)
def test_lists_and_pipelines(text: str, said: list[tuple[str, list[str]]]) -> None:
    """Only what runs at the top is listed, with how it follows what is before it."""
    assert _said(text) == said


def test_the_body_of_a_group() -> None:
    """A group's or subshell's own list is kept; other compounds may run theirs any number of times."""
    (group,) = read("{ a && b; } > f").pipelines
    (loop,) = read("while a; do b; done").pipelines

    assert isinstance(group.stages[0], Compound)
    assert [pipeline.link for pipeline in group.stages[0].body] == [";", "&&"]
    assert [redirect.op for redirect in group.stages[0].redirects] == [">"]
    assert isinstance(loop.stages[0], Compound)
    assert loop.stages[0].body == []


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("cat <<'E'\na $x\nE\n", "a $x\n"),
        ("cat <<E\na\nE\n", "a\n"),
        ("cat <<E\na $x\nE\n", None),
        ("cat <<-'E'\n\ta\n\tE\n", "a\n"),
    ],
)
def test_here_documents_keep_their_body(text: str, body: str | None) -> None:
    """What a here-document says is known unless it depends on expansion."""
    assert read(text).commands[0].redirects[0].body == body


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("git commit -m \"$(cat <<'E'\na $x\nE\n)\"", "a $x\n"),
        ('git commit -m "$(cat <<E\na $x\nE\n)"', None),
        ("git commit -m \"b $(cat <<'E'\na\nE\n)\"", None),
        ('git commit -m "$(cat file)"', None),
    ],
)
def test_a_word_that_copies_a_here_document_has_its_body(text: str, body: str | None) -> None:
    """A word that is nothing but `$(cat <<...)` tells what it copies; any other keeps silent."""
    assert next(command for command in read(text).commands if not command.captured).args[-1].body == body


@pytest.mark.parametrize("text", ["a &", "a |& b", "if a", "cat <<E\n", "(", "a" + "$(" * 3000])
def test_what_cannot_be_read_says_so(text: str) -> None:
    """A form that is not understood is refused, and never guessed at."""
    with pytest.raises(Unread):
        read(text)
