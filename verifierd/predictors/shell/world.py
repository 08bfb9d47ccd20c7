"""One possible world: a virtual shell in which everything unknown has been given one definite form.

Forms differ from world to world, so an answer that is the same in all of them does not hang on the unknown.
"""

import contextlib
import posixpath
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet

import msgspec
from bashkit import Bash, BashError, ExecutionProfile

__all__ = ("KINDS", "SCRATCH", "Outcome", "Tree", "World")

KINDS = ("absent", "file", "folder", "empty", "link")
# A directory is None, a file its text, a link `LINK` and its target.
Tree = dict[str, str | None]
_LINK = "\0link:"

# A world's share of one step; five of them stay below the deadline that the parent sets for the whole.
_SECONDS = 0.3
_MEMORY = 16 << 20
_COMMANDS = 10_000
_ENTRIES = 4000
SCRATCH = "/tmp"  # noqa: S108 - in a virtual file system
"""A directory that is there everywhere."""

# What the virtual shell makes up and won't let go of; the session refuses commands that name it.
_KEPT = frozenset({"bin", "dev", "etc", "proc", "root", "usr"})
# The world whose unknown files hold nothing that a command looks for.
_UNFOUND = 4
# Variables that tell of the last command alone, or that name the world.
_TRANSIENT = frozenset({"_", "HOSTNAME", "PIPESTATUS", "USER"})
# What the virtual file system raises, depending on the call.
_PROBLEMS = (BashError, OSError, RuntimeError)
# What a file's name may end in; not `.git`, `conf.d`, `v1.2` and the like, which are directories as often.
_SUFFIX = re.compile(r"(?<=[^/.])\.(?!(?:app|bak|d|dir|git|new|old|orig|tmp)$)[A-Za-z]\w{0,4}$")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a command did in one world.

    Attributes:
        stdout, stderr: What it printed; `merged` is both in the order of writing.
        exit_code: Its status.
        broken: Why the outcome means nothing (a limit of the virtual shell was met), or None.
    """

    stdout: str = ""
    stderr: str = ""
    merged: str = ""
    exit_code: int = 0
    broken: str | None = None

    @property
    def mixed(self) -> bool:
        """Are errors not all after the output?"""
        return self.merged != self.stdout + self.stderr


class World:
    """A virtual shell with a form for the unknown.

    Args:
        number: Which of `KINDS` the world leans to. World 0 holds nothing but what was learnt.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        # In the names, contents and values that this world makes up, so that they differ from other worlds' and can be
        # told from real ones.
        self.token = f"q{number}zq"
        self._home = f"/h{self.token}{'x' * number}"  # of another length in each world
        self.blobs: dict[str, str] = {}
        self.bash = Bash(
            username=f"u{self.token}",
            hostname=f"h{self.token}",
            cwd="/",
            env={"HOME": self._home, "USER": f"u{self.token}"},
            # The profile that bears more than 1,000 commands a session; the limits of one command stay the usual ones.
            profile=ExecutionProfile.Interactive,
            max_commands=_COMMANDS,
            max_loop_iterations=_COMMANDS,
            timeout_seconds=_SECONDS,
            max_memory=_MEMORY,
        )
        self._files = self.bash.fs()
        self._begin()

    def reset(self) -> None:
        """Forget everything, as if new but much faster."""
        self.bash.reset()
        self._begin()

    def _begin(self) -> None:
        """Be in a directory of this world's own, for nobody knows yet which it is."""
        self.wipe()
        self.folder(SCRATCH)
        self.enter(f"/w{self.token}")

    @property
    def cwd(self) -> str:
        """The directory the shell is in."""
        return self.bash.shell_state().cwd

    def enter(self, path: str) -> None:
        """Be in a directory, which exists."""
        self.folder(path)
        if self.cwd != path:
            self.bash.execute_sync(f"cd -- {shlex.quote(path)}")

    def run(self, command: str, *, ordered: bool) -> Outcome:
        """Run a command; `ordered` keeps track of how output and errors interleave, which is five times slower."""
        chunks: list[str] = []
        try:
            result = self.bash.execute_sync(
                command, on_output=(lambda out, err: chunks.append(out + err)) if ordered else None
            )
        except _PROBLEMS as problem:
            return Outcome(broken=str(problem) or "the virtual shell failed", exit_code=-1)
        error = result.stderr or ""
        broken = None
        if result.error and result.error not in error:
            broken = result.error
        elif result.stdout_truncated or result.stderr_truncated:
            broken = "the output met a limit"
        merged = "".join(chunks)
        if len(merged) != len(result.stdout) + len(error):
            merged = result.stdout + error
        return Outcome(stdout=result.stdout, stderr=error, merged=merged, exit_code=result.exit_code, broken=broken)

    def attempt(self, command: str, without: AbstractSet[str], *, ordered: bool) -> Outcome:
        """What a command would do in a shell that lacks some variables and functions; nothing comes of it."""
        state = self.bash.snapshot()
        for name in sorted(without):
            self.bash.execute_sync(f"unset -v {name}; unset -f {name}")
        outcome = self.run(command, ordered=ordered)
        self.bash.restore_snapshot(state)
        self._files = self.bash.fs()
        return outcome

    def resolve(self, word: str) -> str:
        """The path that a word means here; `~name` is a file's name, for nobody else's home is certified."""
        if word == "~" or word.startswith("~/"):
            word = self.bash.shell_state().variables.get("HOME", "/") + word[1:]
        return "/" + posixpath.normpath(posixpath.join(self.cwd, word)).lstrip("/")

    # What is there

    def exists(self, path: str) -> bool:
        """Whether anything is at a path, a dangling link included."""
        return self._type(path) is not None

    def is_folder(self, path: str) -> bool:
        """Whether a path is a directory."""
        return self._type(path) == "directory"

    def is_file(self, path: str) -> bool:
        """Whether a path is a plain file or leads to one."""
        return self._type(path) == "file"

    def is_blocked(self, path: str) -> bool:
        """Whether something on the way to a path is no directory."""
        parent = posixpath.dirname(path)
        while parent != "/" and not self.exists(parent):
            parent = posixpath.dirname(parent)
        return not self.is_folder(parent)

    def is_dangling(self, path: str) -> bool:
        """Whether a path is a link that leads nowhere."""
        return self._type(path) == "symlink"

    def form(self, path: str) -> tuple[str | None, object]:
        """What is at a path, to be compared with what other worlds have there."""
        kind = self._type(path)
        return kind, self.read(path) if kind == "file" else None

    def read(self, path: str) -> str | None:
        """A file's text, or None if it is no file or no text."""
        try:
            return self._files.read_file(path).decode()
        except (*_PROBLEMS, UnicodeDecodeError):
            return None

    def entries(self, path: str) -> list[tuple[str, str]]:
        """Names and types (`file`, `directory`, `symlink`) in a directory."""
        try:
            return [(entry["name"], entry["metadata"]["file_type"]) for entry in self._files.read_dir(path)]
        except _PROBLEMS:
            return []

    def walk(self, top: str = "/") -> Iterator[tuple[str, str]]:
        """Paths and types below a directory, at most `_ENTRIES` of them."""
        todo, count = [top], 0
        while todo and count <= _ENTRIES:
            folder = todo.pop()
            start = folder.rstrip("/")
            for name, kind in self.entries(folder):
                if folder == "/" and name in _KEPT:
                    continue
                count += 1
                path = f"{start}/{name}"
                if kind == "directory":
                    todo.append(path)
                yield path, kind

    def tree(self, top: str = "/") -> Tree | None:
        """Every path below a directory with what is there; None if there is too much."""
        found: Tree = {}
        for path, kind in self.walk(top):
            if kind == "directory":
                found[path] = None
            elif kind == "symlink":
                found[path] = f"{_LINK}{self._files.read_link(path)}"
            else:
                found[path] = self.read(path) or ""
        return found if len(found) <= _ENTRIES else None

    # Making it so

    def remove(self, path: str) -> None:
        """Let nothing be at a path."""
        try:
            self._files.remove(path, recursive=True)
        except _PROBLEMS:
            return

    def folder(self, path: str) -> None:
        """Let a path be a directory, whatever was in the way."""
        if self.is_folder(path):
            return
        parent = posixpath.dirname(path)
        if parent != path:
            self.folder(parent)
        if self.exists(path):
            self.remove(path)
        self._files.mkdir(path)

    def file(self, path: str, text: str) -> None:
        """Let a path be a file with a text, whatever was in the way."""
        data = text.encode()
        try:
            self._files.write_file(path, data)
        except _PROBLEMS:
            self.folder(posixpath.dirname(path))
            if self.is_folder(path):
                self.remove(path)
            with contextlib.suppress(*_PROBLEMS):
                # A loop of links on the way is not worth more.
                self._files.write_file(path, data)

    def link(self, path: str, target: str) -> None:
        """Let a path be a symbolic link, whatever was in the way."""
        self.folder(posixpath.dirname(path))
        self.remove(path)
        self._files.symlink(target, path)

    def wipe(self) -> None:
        """Forget every file; variables and functions stay."""
        self.wipe_files()
        self.blobs.clear()

    def wipe_files(self) -> None:
        """Remove every file."""
        for name, _ in self.entries("/"):
            if name not in _KEPT:
                self.remove(f"/{name}")

    def imagine(self, path: str, words: list[str], *, exists: bool = False, shape: str | None = None) -> None:
        """Give an unknown path this world's form.

        Args:
            path: The path.
            words: What the command may look for in it.
            exists: It is there; only its kind and content are unknown.
            shape: `file` (or a link to one) or `folder` if it can be nothing else, `plain` if it is a file and no link;
                `linked` lets the world of empty files stand for that of links, where that one has no such path.
        """
        kind = self._kind(path)
        if shape == "plain" or (shape == "file" and kind == "folder"):
            kind = "file"
        elif shape == "folder" and kind != "absent":
            kind = "absent" if self.number % 2 else "folder"
        if kind == "absent":
            if not exists:
                return
            kind = "file" if shape == "file" or _SUFFIX.search(path) else "folder"
        if kind == "empty" and shape == "linked":
            self.file(self._link_target(path), "")
            self.link(path, self._link_target(path))
        elif kind == "empty":
            self.file(path, "")
        elif kind == "link":
            self.file(self._link_target(path), self._blob(words))
            self.link(path, self._link_target(path))
        elif kind == "folder":
            self.folder(path)
            for count in range(1 + (self.number > 0)):
                self.file(f"{path}/in{count}_{self.token}.py", self._blob(words))
        else:
            blob = self._blob(words)
            self.file(path, blob)
            self.blobs[path] = blob

    def _link_target(self, path: str) -> str:
        return f"/l{self.token}/{zlib.crc32(path.encode()):x}"

    def variable(self, name: str) -> None:
        """Give an unknown variable this world's value; unset in world 0."""
        values = (None, f"v{self.token}", str(40 + self.number), "", f"/v{self.token} x")
        value = self._home if name == "HOME" else values[self.number]
        if value is None:
            self.bash.execute_sync(f"unset {name}")
        else:
            self.set_variable(name, value)

    def set_variable(self, name: str, value: str) -> None:
        """Let a variable have a value; not by `set_env`, whose values outlive a reset."""
        self.bash.execute_sync(f"export {name}={shlex.quote(value)}")

    def same_shell(self, other: "World", unknown: AbstractSet[str]) -> bool:
        """Whether two worlds differ in files alone, unknown variables aside."""
        own, theirs = self.bash.shell_state(), other.bash.shell_state()
        if own.cwd != theirs.cwd:
            return False
        mine, others = (
            (
                {
                    # The directory before this one is the world's own until the agent changes it.
                    name: value.replace(world.token, "")
                    for name, value in state.variables.items()
                    if name not in unknown | _TRANSIENT
                },
                {name: dict(value) for name, value in state.arrays.items() if name not in _TRANSIENT},
                {name: dict(value) for name, value in state.assoc_arrays.items()},
            )
            for world, state in ((self, own), (other, theirs))
        )
        return mine == others

    def adopt_shell(self, state: bytes, unset: Iterable[str]) -> None:
        """Take over another world's shell, files included; variables in `unset` keep this world's value."""
        own = self.tree() or {}
        self.bash.restore_snapshot(state)
        self._files = self.bash.fs()
        for name in unset:
            self.variable(name)
        self.wipe_files()
        for path in sorted(own):
            self._put(path, own[path])

    def adopt(self, other: "World", theirs: Tree, settled: Callable[[str], bool]) -> bool:
        """Take over another world's files where reality bore them out; elsewhere this world's forms stay.

        Args:
            other: The world to follow.
            theirs: Its files.
            settled: Whether a path was within the reach of the command.

        Returns:
            False if this world is too large to compare.
        """
        own = self.tree()
        if own is None:
            return False
        for path in sorted(own.keys() | theirs.keys()):
            if not settled(path):
                continue
            if path not in theirs:
                self.remove(path)
            elif other.token in path or other.token in (theirs[path] or ""):
                self._vary(path, theirs[path], other)
            elif path not in own or own[path] != theirs[path]:
                self._put(path, theirs[path])
                self._copy_mode(path, other)
        return True

    def _put(self, path: str, text: str | None) -> None:
        if text is None:
            self.folder(path)
        elif text.startswith(_LINK):
            self.link(path, text.removeprefix(_LINK))
        else:
            self.file(path, text)

    def _copy_mode(self, path: str, other: "World") -> None:
        with contextlib.suppress(*_PROBLEMS):
            self._files.chmod(path, other.bash.stat(path)["mode"])

    def _vary(self, path: str, text: str | None, other: "World") -> None:
        """Where the other world's form is made up, only its kind is borne out: content and names stay this world's."""
        if other.token in path:
            # How many made-up entries there are must not be taken for known, if their number happened to be right.
            for count in range(self.number):
                self._vary_entry(path.replace(other.token, self.token + "x" * count), text, other)
        else:
            self._vary_entry(path, text, other)

    def _vary_entry(self, path: str, text: str | None, other: "World") -> None:
        blob = other.blobs.get(path)
        if text is None or (text.startswith(_LINK) and other.token not in text):
            self._put(path, text)
        elif text.startswith(_LINK):
            # The target of the other world's link is none of this one's.
            self.imagine(path, [], exists=True)
        elif blob and blob in text:
            self.blobs[path] = self._blob([])
            self.file(path, text.replace(blob, self.blobs[path]))
        elif other.token in text:
            self.file(path, text.replace(other.token, self.token) + f"more {self.token}\n" * (self.number + 1))
        else:
            self.file(path, text)

    def refresh(self, path: str, words: list[str]) -> None:
        """Let the unknown part of a file hold what a command may look for; what was added to it stays behind it."""
        blob = self.blobs.get(path)
        text = self.read(path)
        if text is None or self.token not in text:
            return
        fresh = self._blob(words)
        if blob and text.startswith(blob):
            self.blobs[path] = fresh
            self.file(path, fresh + text[len(blob) :])
        else:
            self.file(path, fresh + text)

    def _blob(self, words: list[str]) -> str:
        """Text that differs from other worlds' in lines, words, characters, and in how often a pattern matches it."""
        lines = [f"{self.token} {self.number}"]
        if self.number == _UNFOUND:
            # Something else than what is looked for.
            # No newline ends it, so that what is added goes on in the last line.
            return "\n".join([*lines, f"{self.token}"] * 3)
        for count in range(self.number):
            lines.extend(f"{word} {self.token} {count}" for word in (*words, "7"))
        return "\n".join(lines) + "\n"

    def _kind(self, path: str) -> str:
        kind = KINDS[self.number]
        # A directory called `notes.txt` is too rare to keep every write from being decided.
        return "file" if kind == "folder" and _SUFFIX.search(path) else kind

    def _type(self, path: str) -> str | None:
        """The type of what a path leads to; `symlink` if it leads nowhere."""
        try:
            kind: str = self._files.stat(path)["file_type"]
        except _PROBLEMS:
            return "symlink" if self._is_link(path) else None
        return kind

    def _is_link(self, path: str) -> bool:
        try:
            self._files.read_link(path)
        except _PROBLEMS:
            return False
        return True
