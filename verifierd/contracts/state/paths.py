"""Which paths surely exist and which surely do not, as far as the session itself made or removed them.

Nothing is kept that others may have changed: another turn, other agents, and whatever may write without saying where
make all of it forgotten.
"""

import posixpath
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from verifierd.contracts.calls import Call, Part, path_in
from verifierd.contracts.state.effects import Effect, at_a_glance, beside, effect
from verifierd.types import ObservationKind, Step

__all__ = ("Paths",)

_MOST = 300


class Paths:
    """What exists.

    Attributes:
        shared: True once others work beside the session: nothing is sure any more.
        turn: The turn of the last step.
    """

    def __init__(self) -> None:
        self.shared = False
        self.turn: str | None = None
        self._known: OrderedDict[str, bool] = OrderedDict()

    def exists(self, path: str) -> bool | None:
        """Does a path surely exist, or surely not? None if that is not known."""
        return None if self.shared else self._known.get(path)

    def within(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Names in a directory, and whether they exist."""
        if not self.shared:
            for path, exists in self._known.items():
                if posixpath.dirname(path) == folder:
                    yield posixpath.basename(path), exists

    def observe(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        """Learn from what a step made or removed, and forget what it may have changed."""
        if step.turn != self.turn:
            self._known.clear()
            self.turn = step.turn
        fields = step.action.fields
        if fields.get("run_in_background") or step.observation_kind is ObservationKind.STILL_RUNNING:
            self.shared = True
        if step.action.command is not None:
            self._shell(step, parts, calls)
        elif at_a_glance(step.action) == Effect.FILES:
            self._written(step, fields.get("file_path"))
        elif at_a_glance(step.action) & Effect.ANY_FILE:
            self._known.clear()
        if beside(step.siblings) & Effect.UNNAMED:  # the others tell themselves what they wrote
            self._known.clear()

    def _written(self, step: Step, name: object) -> None:
        if not isinstance(name, str):
            self._known.clear()
        elif step.succeeded and step.observation_kind is ObservationKind.ENV and name in step.observation:
            self._made(path_in(step.cwd, name))

    def _shell(self, step: Step, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        command = step.action.command or ""
        if (
            not calls
            or any(None in part.stages for part in parts)
            or any(mark in command for mark in ("$(", "`", "<("))
        ):
            self._known.clear()
            return
        well = step.exit_code == 0 and step.observation_kind is ObservationKind.ENV
        for part in parts:
            sure = well and part.succeeds and len(part.stages) == 1
            for call in part.stages:
                if call is not None:
                    self._ran(call, sure=sure)

    def _ran(self, call: Call, *, sure: bool) -> None:
        """What one program made or removed, if it surely went well; else what it may have is forgotten."""
        words = [word for word in call.operands if word is not None]
        told = sure and not call.globs and len(words) == len(call.operands) and call.cwd is not None
        if call.name == "rm" and told and not call.given("-i", "-I"):
            for word in words:
                self._removed(call.path(word))
        elif call.name in {"mkdir", "touch"} and told and set(call.options) <= {"-p", "--parents", "-v"}:
            for word in words:
                self._made(call.path(word))
        elif effect(call) & Effect.ANY_FILE:
            self._known.clear()
        self._redirected(call, sure=sure)

    def _redirected(self, call: Call, *, sure: bool) -> None:
        """The files that a program's output went to."""
        for redirect in call.command.redirects if call.command is not None else ():
            text = redirect.target.text if redirect.target is not None else None
            if redirect.fd == 0 or redirect.op == ">&" or text == "/dev/null":
                continue
            if text is None or not sure or call.cwd is None:
                self._known.clear()
            else:
                self._made(call.path(text))

    def _made(self, path: str) -> None:
        """A path exists, and so do the directories that lead to it."""
        self._keep(path, exists=True)
        folder = posixpath.dirname(path)
        while self._known.get(folder) is False:
            self._keep(folder, exists=True)
            folder = posixpath.dirname(folder)

    def _removed(self, path: str) -> None:
        """A path is gone; whatever has its name in it, in any spelling, is forgotten."""
        name = posixpath.basename(path).casefold()
        for known in [known for known in self._known if name in known.casefold().split("/")]:
            del self._known[known]
        self._keep(path, exists=False)

    def _keep(self, path: str, *, exists: bool) -> None:
        if not path.startswith("/") and path[1:2] != ":":
            return
        for known in [known for known in self._known if known.casefold() == path.casefold()]:
            del self._known[known]
        self._known[path] = exists
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
