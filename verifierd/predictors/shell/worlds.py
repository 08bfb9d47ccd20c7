"""One trajectory in several possible worlds: predicted where they agree, taught by what really happened."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from bashkit import BashError, ScriptAnalysis

from verifierd.predictors.shell.anchor import Absent, Content, Lesson, Listing, Made, Place, Tree, Value, lessons
from verifierd.predictors.shell.envelope import Envelope
from verifierd.predictors.shell.profile import Profile, refuse_portable
from verifierd.predictors.shell.sight import Answer, Effect, Sight
from verifierd.predictors.shell.world import KINDS, Outcome, World
from verifierd.types import Abstain, ObservationKind

__all__ = ("Session",)

_PATH = re.compile(r"[\w./@~+,:=%-]+")
_RAW = re.compile(r"[\w.+@~-]*(?:/[\w.+@~-]+)+|[\w+-]*\.[\w.+-]+")
_WORD = re.compile(r"[A-Za-z_][\w.+-]*")
_GLOB = re.compile(r"[^\s'\"|;&<>()=]*[*?\[][^\s'\"|;&<>()]*")
_ENDING = re.compile(r"\.(\w{1,5})\b")
_BRACES = re.compile(r"[\w./+,-]*\{[\w./+,-]+\}[\w./+,{}-]*")
_REFERENCE = re.compile(r"\$\{?[#!]?([A-Za-z_]\w*)")
_ARITHMETIC = re.compile(r"\(\(|\blet\b|\bprintenv\b|-[velgn][qtet]\b|\bdeclare\b|-v\s|\bexport\b|\breadonly\b|\$\[")
# Variables that the virtual shell sets by itself.
_GIVEN = frozenset(
    "OPTIND PWD OLDPWD HOSTNAME SHELL PS4 UID _ SHLVL PATH EUID HOME MACHTYPE PPID USER OSTYPE HOSTTYPE".split()  # noqa: SIM905
)
_SPECIAL = frozenset({"IFS", "PWD", "OPTIND", "OPTARG", "REPLY", "BASH_REMATCH", "FUNCNAME"})
_WALK = re.compile(r"[*?\[]|\b(?:ls|find|tar|du|diff|xargs)\b|-\w*[rR]\b|\b-a\b")
_WALKERS = frozenset({"find", "grep", "ls", "cp", "rm", "mv", "tar", "diff", "du", "chmod"})
# Commands for which it matters what else is in a directory.
_LISTERS = _WALKERS | {"rmdir", "ln", "xargs", "tree"}
_WRITERS = frozenset({"touch", "mkdir", "rmdir", "cp", "mv", "ln", "tee", "rm", "split", "tar", "sed", "chmod"})
_MAKERS = frozenset({"touch", "mkdir", "cp", "mv", "ln", "tee", "split", "tar"})
# They look at names and types, never into files.
_BLIND = frozenset(
    {None, "ls", "find", "rm", "rmdir", "mkdir", "touch", "cd", "pwd", "echo", "printf", "true", "false"}
)
_MOVERS = frozenset({"cp", "mv", "ln", "tar"})
_LANGUAGE = frozenset(
    "for in do done if then else elif fi while until case esac function local return echo printf export read".split()  # noqa: SIM905
)
_SETTINGS = frozenset({"shopt", "alias", "unalias", "trap", "umask", "exec", "ulimit", "enable", "hash"})
_CLOSING = re.compile(r"0?[0-5][0-7]{2}|[ugoa]*[-=][rwx]*|[ugoa]+=.*")
_NO_SUCH = re.compile(
    r"(?:^|: )(?:cannot \w+(?: \w+)* )?['‘]?([^:'‘’\n]+)['’]?(?: for reading)?: No such file or directory$", re.M
)
_SYNTHETIC = re.compile(r"/(?:etc|usr|bin|sbin|lib\w*|proc|sys|root|var|boot|run|dev/(?!null\b))(?:/|\b)")
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
_STATUS = re.compile(r"\$\{?\?")
_PLACES = 64
_ANY = "\1"
_FORMS = (f"0a_{_ANY}.py", f"zz_{_ANY}")
# What the envelope says where the order of sorted lines is the locale's.
_LOCALE = "order depends on the locale"
_DEPENDS = "depends on what nobody showed"


class _Trial(msgspec.Struct, kw_only=True):
    """A command and what became of it in the worlds.

    `refused` says why it was not run; `doubted` why its outcome is not certified; `text` is set if it is decided.
    """

    effect: Effect
    cwd: str | None
    analysis: ScriptAnalysis | None = None
    read_only: bool = False
    refused: str | None = None
    doubted: str | None = None
    detail: str = ""
    outcomes: list[Outcome] = []
    text: str | None = None
    reach: frozenset[str] = frozenset()
    wide: bool = False
    variables: frozenset[str] = frozenset()


class Session:
    """What is known of one trajectory's machine.

    Args:
        envelope: What the virtual shell is trusted with.
        profile: The kind of shell; it learns with the session.
        worlds: The first worlds, made beforehand.
    """

    def __init__(self, envelope: Envelope, profile: Profile, worlds: Sequence[World] = ()) -> None:
        self.at = 0
        self.weight = 0
        self._envelope = envelope
        self._profile = profile
        self._worlds = [*worlds, *(World(number) for number in range(len(worlds), len(KINDS)))]
        self._settled: set[str] = set()
        self._fresh: set[str] = set()
        self._listed: dict[str, str] = {}
        self._writable: set[str] = set()
        self._variables: set[str] = {"HOME"}
        self._values: set[str] = set()
        self._vague: set[str] = set()
        self._functions: set[str] = set()
        self._cwd: str | None = None
        self._strayed = True
        self._turn: str | None = None
        self._haunted = False
        self._locked: str | None = None
        self._trial: _Trial | None = None

    # Predicting

    def predict(self, sight: Sight) -> Answer:
        """What the step's observation should be. The worlds go on from there; `observe` must follow with the same step."""
        if sight.kind is not ObservationKind.ENV:
            return _abstain(Abstain.NOT_ENV, "not an answer of the environment")
        if sight.effect.kind != "shell":
            return _abstain(Abstain.UNPREDICTABLE, "not a shell command")
        if sight.effect.command is None:
            return _abstain(Abstain.UNPREDICTABLE, "no text, or too long a command")
        if sight.siblings is None or not all(self._harmless(effect) for effect in sight.siblings):
            return _abstain(Abstain.RACY, "a parallel action may have changed the state")
        if not self._tried(sight):
            self._arrive(sight)
        if self._profile.windows or self._profile.rewritten:
            return _abstain(Abstain.UNPREDICTABLE, "the command in the log is not what ran")
        trial = self._try(sight)
        if trial.text is None:
            return _abstain(Abstain.UNPREDICTABLE, trial.refused or trial.doubted or trial.detail)
        return Answer(text=trial.text, exit_code=trial.outcomes[0].exit_code)

    @property
    def waiting(self) -> bool:
        """Whether the worlds have gone on with a step that was not observed yet."""
        trial = self._trial
        return trial is not None and not trial.read_only and trial.refused is None

    def follows(self, sight: Sight) -> bool:
        """Whether the worlds stand where this step starts, or have just tried this very step."""
        return not self.waiting or self._tried(sight)

    # Learning

    def observe(self, sight: Sight) -> None:
        """Take in what really happened."""
        self.at += 1
        self.weight += len(sight.observation or "") + len(sight.effect.command or "")
        trial = self._trial if self._tried(sight) else None
        self._trial = None
        if trial is None:
            self._arrive(sight)
        self._profile.see(sight.effect.command, sight.observation, sight.cwd)
        if sight.effect.kind != "shell":
            self._tool(sight)
            return
        if sight.effect.command is None:
            self.lose()
            return
        if sight.kind in {ObservationKind.POLICY_DENIED, ObservationKind.HARNESS_ERROR}:
            if trial is not None and not trial.read_only and trial.refused is None:
                self._forget()
            return
        if trial is None:
            trial = self._try(sight)
            self._trial = None
        if sight.kind is not ObservationKind.ENV:
            if not trial.read_only:
                self._haunted = sight.kind is ObservationKind.STILL_RUNNING and sight.format != "native"
                self._unsettle(trial)
            return
        self._compare(trial, sight)

    def skip(self) -> None:
        """A step took place that must not be tried."""
        self.at += 1
        self.lose()

    def lose(self) -> None:
        """Something happened that nobody can tell: start from nothing, in the same directory."""
        self._trial = None
        for world in self._worlds:
            world.reset()
        self._variables = {"HOME"}
        self._values.clear()
        self._vague.clear()
        self._functions.clear()
        self._profile.forget()
        self._forget()

    def _compare(self, trial: _Trial, sight: Sight) -> None:
        observed, code = sight.observation, sight.exit_code
        if trial.refused is not None:
            if not trial.read_only:
                self._unsettle(trial)
        elif observed is not None:
            errors = _shows_errors(trial)
            fit = [
                (code is None or code == outcome.exit_code)
                and (
                    trial.doubted is not None or self._profile.matches(outcome.merged, observed, errors=errors(outcome))
                )
                for outcome in trial.outcomes
            ]
            if not any(fit) and (trial.text is not None or not trial.read_only):
                self.lose()
            elif any(fit) and not all(fit):
                self._follow([world for world, fits in zip(self._worlds, fit, strict=True) if fits], trial)
            elif trial.doubted is not None and code is None and not trial.read_only:
                self._unsettle(trial)
            if any(fit) and errors(trial.outcomes[0]) and self._profile.prefix is None:
                self._profile.learn_prefix(trial.outcomes[0].merged, observed)
            if all(fit) and trial.doubted == _LOCALE:
                self._profile.learn_order(observed, trial.outcomes[0].merged)
            self._proven(trial, fit)
        elif not trial.read_only and trial.text is None:
            self._unsettle(trial)
        if observed is not None and trial.analysis is not None and sight.effect.command is not None:
            exact = not self._profile.trims
            for lesson in lessons(trial.analysis, sight.effect.command, trial.cwd, observed, code, exact=exact):
                self._learn(lesson)

    def _proven(self, trial: _Trial, fit: list[bool]) -> None:
        """A write that went as foreseen shows that its directory can be written to."""
        if all(fit) and trial.analysis is not None and trial.outcomes[0].exit_code == 0:
            self._writable.update(posixpath.dirname(path) for path in self._targets(trial.analysis, trial.cwd))

    def _unsettle(self, trial: _Trial) -> None:
        """A command did something, and nobody knows what."""
        analysis = trial.analysis
        touches_shell = analysis is None or (
            analysis.is_opaque
            or bool(analysis.functions)
            or any(
                part.assignments or part.name in {"export", "read", "declare", "unset", "local", "let"}
                for part in analysis.commands
            )
        )
        if touches_shell and not self._profile.portable:
            self.lose()
        else:
            self._forget()

    def _forget(self) -> None:
        """Nothing is known of any file."""
        for world in self._worlds:
            world.wipe()
        self._settled.clear()
        self._fresh.clear()
        self._listed.clear()
        self._strayed = True
        self._variables.discard("OLDPWD")
        if self._cwd is not None:
            for world in self._worlds:
                world.enter(self._cwd)

    def _follow(self, survivors: list[World], trial: _Trial) -> None:
        """Reality refuted some worlds: they become like one that stood."""
        reach, wide, cwd = trial.reach, trial.wide, trial.cwd

        def settled(path: str) -> bool:
            if wide and cwd is not None and (path == cwd or path.startswith(cwd + "/")):
                return True
            return any(path == name or path.startswith(name + "/") or name.startswith(path + "/") for name in reach)

        open_names = self._variables - self._values - trial.variables
        self._vague |= (self._variables - self._values) & trial.variables
        refuted = [world for world in self._worlds if world not in survivors]
        unknown = self._variables - self._values
        trees = [world.tree() for world in survivors[: len(refuted)]]
        for count, world in enumerate(refuted):
            model, tree = survivors[count % len(trees)], trees[count % len(trees)]
            if not world.same_shell(model, unknown):
                world.adopt_shell(model.bash.snapshot(), open_names)
            if tree is None or not world.adopt(model, tree, settled):
                self.lose()
                return

    # Lessons

    def _learn(self, lesson: Lesson) -> None:
        match lesson:
            case Content(path, text, exact):
                self._settle(path)
                for world in self._worlds:
                    # What the log trimmed at the ends has a form of its own in each world.
                    ends = ("\n", "", "\n\n", " \n", "\n \n")[world.number]
                    world.file(path, text if exact else text + ends)
                    world.blobs.pop(path, None)
            case Listing(path, names, hidden):
                self._profile.learn_order("\n".join(names), "\n".join(sorted(names)))
                self._list(path, names, hidden=hidden)
            case Tree(path, files):
                self._plant_tree(path, files)
            case Made(path):
                if all(world.is_folder(path) for world in self._worlds):
                    self._settle(path)
                    self._fresh.add(path)
            case Absent(path):
                self._settle(path)
                for world in self._worlds:
                    # What leads nowhere is "no such file", too.
                    if not world.is_dangling(path) and path != self._cwd:
                        world.remove(path)
            case Value(name, text):
                if name not in _SPECIAL:
                    self._variables.add(name)
                    self._values.add(name)
                    self._vague.discard(name)
                    for world in self._worlds:
                        world.set_variable(name, text)
            case Place(path):
                self._cwd = path
                for world in self._worlds:
                    world.enter(path)

    def _list(self, path: str, names: tuple[str, ...], *, hidden: bool) -> None:
        self._settle(path)
        if not self._is_fresh(path) or self._listed.get(path) != "all":
            self._listed[path] = "all" if hidden else "visible"
        for world in self._worlds:
            world.folder(path)
            for name, _ in world.entries(path):
                if name not in names and (hidden or not name.startswith(".")):
                    world.remove(posixpath.join(path, name))
            for name in names:
                entry = posixpath.join(path, name)
                if not world.exists(entry):
                    world.imagine(entry, [], exists=True)
        self._settled.update(posixpath.join(path, name) for name in names)

    def _plant_tree(self, path: str, files: tuple[str, ...]) -> None:
        self._settle(path)
        self._listed[path] = "files"
        wanted = set(files)
        for world in self._worlds:
            world.folder(path)
            tree = world.tree(path) or {}
            for entry, text in tree.items():
                if text is not None and entry not in wanted and not text.startswith("\0"):
                    world.remove(entry)
                elif text is None:
                    self._listed[entry] = "files"
            for entry in files:
                if not world.exists(entry) or world.is_folder(entry):
                    world.file(entry, "")
                    world.remove(entry)
                    blob = f"{world.token}\n" * (world.number + 1)
                    world.file(entry, blob)
                    world.blobs[entry] = blob
        for entry in files:
            self._settle(entry)
            folder = posixpath.dirname(entry)
            while folder.startswith(path + "/"):
                self._listed[folder] = "files"
                folder = posixpath.dirname(folder)

    def _tool(self, sight: Sight) -> None:
        """Other tools of the agent write files, too."""
        effect = sight.effect
        if effect.kind == "none" or sight.kind in {ObservationKind.POLICY_DENIED, ObservationKind.HARNESS_ERROR}:
            return
        if effect.kind == "any" or effect.path is None:
            self._forget()
            return
        sure = sight.kind is ObservationKind.ENV and not sight.failed
        text = effect.text if effect.kind == "write" else self._edited(effect)
        if not sure or text is None:
            self._settled.discard(effect.path)
            for world in self._worlds:
                world.imagine(effect.path, [], exists=True)
                world.blobs.pop(effect.path, None)
            if sure:
                self._settle(effect.path)
            return
        self._learn(Content(effect.path, text, exact=True))
        self._writable.add(posixpath.dirname(effect.path))

    def _edited(self, effect: Effect) -> str | None:
        path = effect.path or ""
        texts = {world.read(path) for world in self._worlds}
        text = texts.pop()
        if texts or text is None or path not in self._settled or not effect.edits:
            return None
        for old, new, everywhere in effect.edits:
            if not old or old not in text:
                return None
            text = text.replace(old, new) if everywhere else text.replace(old, new, 1)
        return text

    # Running

    def _tried(self, sight: Sight) -> bool:
        trial = self._trial
        return trial is not None and trial.effect == sight.effect and (sight.cwd is None or trial.cwd == sight.cwd)

    def _arrive(self, sight: Sight) -> None:
        """Be where the step starts."""
        if sight.turn != self._turn:
            if sight.format != "native":
                self._forget()
            self._turn = sight.turn
        if self._haunted:
            self._forget()
        if sight.cwd is None:
            return
        self._profile.place(sight.cwd)
        cwd = posixpath.normpath(sight.cwd) if sight.cwd.startswith("/") else None
        if cwd is None:
            return
        there = [world for world in self._worlds if world.cwd == cwd]
        if self._profile.native and not self._strayed and len(there) < len(self._worlds):
            if there:
                self._follow(there, _Trial(effect=Effect("shell"), cwd=cwd, reach=frozenset({cwd})))
            else:
                self.lose()
        if self._cwd != cwd:
            self._cwd = cwd
            self._settle(cwd)
        for world in self._worlds:
            world.enter(cwd)
        self._strayed = False

    def _harmless(self, effect: Effect) -> bool:
        if effect.kind != "shell":
            return effect.kind == "none"
        if effect.command is None:
            return False
        try:
            analysis = self._worlds[0].bash.analyze(effect.command)
        except BashError:
            return False
        return self._envelope.is_read_only(analysis, effect.command)

    def _try(self, sight: Sight) -> _Trial:
        """Run the step's command in all worlds, if it may be run at all."""
        trial = self._trial
        if trial is not None and self._tried(sight):
            return trial
        trial = _Trial(effect=sight.effect, cwd=self._cwd)
        self._trial = trial
        command = sight.effect.command or ""
        try:
            trial.analysis = self._worlds[0].bash.analyze(command)
        except BashError:
            trial.refused = "the virtual shell cannot parse it"
            self._strayed = True
            return trial
        analysis = trial.analysis
        trial.read_only = self._envelope.is_read_only(analysis, command)
        values = self._known_values(command)
        self._note(analysis)
        trial.refused = self._refuse(analysis, command, values)
        if trial.refused is None:
            trial.refused = self._plant(analysis, command, trial)
        if trial.refused is not None:
            self._strayed = self._strayed or not trial.read_only
            return trial
        self._functions.update(analysis.functions)
        ordered = len(analysis.commands) > 1
        for world in self._worlds:
            outcome = world.run(command, ordered=ordered)
            if outcome.broken is not None:
                trial.refused = f"the virtual shell gave up: {outcome.broken[:80]}"
                trial.analysis, trial.read_only = None, False
                self.lose()
                self._trial = trial
                return trial
            trial.outcomes.append(self._repaired(outcome, command))
        self._decide(trial, analysis, command, values)
        return trial

    def _refuse(self, analysis: ScriptAnalysis, command: str, values: dict[str, str]) -> str | None:
        """Why a command is not run in the worlds."""
        if self._profile.portable:
            return refuse_portable(analysis, command)
        if self._locked is not None:
            return self._locked
        if found := _STATUS.search(command):
            before = command[: found.start()]
            if not re.search(r"[;&|\n]", before):
                return "status of the step before"
        if reason := self._envelope.refuse_command(analysis, command, functions=self._functions, values=values):
            return reason
        if self._vague.intersection(_REFERENCE.findall(command)):
            return _DEPENDS
        closed = self._cwd is not None and self._is_fresh(self._cwd)
        for part in analysis.commands:
            if part.name in _MAKERS and None in part.args and not closed:
                return "writes to a computed name"
        if any(r.mode == "append" and r.path is None for r in analysis.redirects) and not closed:
            return "writes to a computed name"
        return None

    def _decide(self, trial: _Trial, analysis: ScriptAnalysis, command: str, values: dict[str, str]) -> None:
        """Set the text if it is certain, else the reason why not."""
        first = trial.outcomes[0]
        for outcome in {(o.stdout, o.stderr): o for o in trial.outcomes}.values():
            if self._profile.portable:
                trial.doubted = "errors differ between shells" if outcome.stderr else None
            else:
                trial.doubted = self._envelope.refuse_output(
                    analysis,
                    command,
                    outcome.stdout,
                    outcome.stderr,
                    values=values,
                    collated=self._profile.collated,
                )
            if trial.doubted is not None:
                return
        if any((o.merged, o.exit_code) != (first.merged, first.exit_code) for o in trial.outcomes):
            trial.detail = _DEPENDS
        elif any(world.token in first.merged for world in self._worlds) or not self._sure_of_absence(first):
            trial.detail = _DEPENDS
        elif "\ufffd" in first.merged or "\0" in first.merged:
            trial.detail = "not text"
        elif not self._may_write(analysis, trial.cwd):
            trial.detail = "nothing shows that it may write there"
        elif self._profile.portable and first.exit_code != 0 and "2>" in command:
            trial.detail = "errors differ between shells"
        else:
            trial.text = self._profile.spell(first.merged, errors=_shows_errors(trial)(first))
            trial.detail = "" if trial.text is not None else "the form of the shell's errors was not seen yet"

    def _repaired(self, outcome: Outcome, command: str) -> Outcome:
        if not outcome.stderr and "2>" not in command and "&>" not in command:
            return outcome
        cwd = self._cwd or ""
        return msgspec.structs.replace(
            outcome,
            stderr=self._envelope.repair(outcome.stderr, cwd),
            merged=self._envelope.repair(outcome.merged, cwd),
        )

    def _note(self, analysis: ScriptAnalysis) -> None:
        """Remember what the worlds cannot show: settings of the shell and modes that nothing enforces."""
        for part in analysis.commands:
            if part.name in _SETTINGS:
                self._locked = "settings of the shell were changed"
            if part.name == "chmod" and any(word is None or _CLOSING.fullmatch(word) for word in part.args):
                self._locked = "permissions were taken away"

    def _sure_of_absence(self, outcome: Outcome) -> bool:
        """Whether every path that is said to be missing is known to be."""
        if "No such file" not in outcome.merged:
            return True
        for name in _NO_SUCH.findall(outcome.merged):
            path = self._resolve(name.strip(), self._worlds[0])
            if path is not None and not self._is_settled(path) and not self._cut_off(path, self._worlds[0]):
                return False
        return True

    def _may_write(self, analysis: ScriptAnalysis, cwd: str | None) -> bool:
        """Native recordings run in a directory of their own; elsewhere a write must have been seen to work."""
        for path in self._targets(analysis, cwd):
            parent = posixpath.dirname(path)
            if parent in self._writable or self._is_fresh(parent):
                continue
            if not self._profile.native or path.startswith(_SYSTEM):
                return False
        return True

    @staticmethod
    def _targets(analysis: ScriptAnalysis, cwd: str | None) -> Iterator[str]:
        words = [r.path for r in analysis.redirects if r.is_write and r.path not in {None, "/dev/null"}]
        for part in analysis.commands:
            if part.name in _WRITERS:
                words += [word for word in part.args if word and not word.startswith("-") and _PATH.fullmatch(word)]
        for word in words:
            if word is not None and (word.startswith("/") or cwd is not None):
                yield posixpath.normpath(posixpath.join(cwd or "/", word))

    def _known_values(self, command: str) -> dict[str, str]:
        """The variables that earlier steps set, to the same in all worlds."""
        if "$" not in command:
            return {}
        first, *others = (world.bash.shell_state().variables for world in self._worlds)
        guessed = (self._variables - self._values) | _GIVEN
        return {
            name: value
            for name, value in first.items()
            if name not in guessed and all(other.get(name) == value for other in others)
        }

    # Unknown things

    def _plant(self, analysis: ScriptAnalysis, command: str, trial: _Trial) -> str | None:
        """Give everything unknown that the command may meet a form in each world; the reason if that cannot be done."""
        names = set(_REFERENCE.findall(command))
        if _ARITHMETIC.search(command):
            names.update(_WORD.findall(command))
        if re.search(r"\bcd\s+-", command) or "~-" in command:
            names.add("OLDPWD")
        known = self._worlds[0].bash.shell_state().variables
        for name in sorted(names - _SPECIAL - self._variables):
            if name not in known or name in _GIVEN - {"OLDPWD"}:
                self._variables.add(name)
                for world in self._worlds:
                    world.variable(name)
        trial.variables = frozenset(names)
        text = command
        for name in names:
            value = known.get(name)
            if value is not None and name not in {"HOME"} and len(value) < 4096:  # noqa: PLR2004 - longer is no path
                text = re.sub(rf"\$\{{?{name}\b\}}?", lambda _, value=value: value, text)
        text = re.sub(r"\$\{?HOME\b\}?", "~", text)
        words = self._words(analysis, text)
        if len(words) > _PLACES:
            return "names too many paths"
        if not self._profile.portable and any(_SYNTHETIC.match(word) for word in words):
            return "names a path of the system"
        reach = set()
        hints = [word for word in _WORD.findall(command) if len(word) < 32][:24]  # noqa: PLR2004 - enough to match
        shapes = _shapes(analysis)
        for word in sorted(words, key=lambda word: word.count("/")):
            for world in self._worlds:
                path = self._resolve(word, world)
                if path is None:
                    continue
                reach.add(path)
                if not self._is_settled(path) and not self._cut_off(path, world) and not self._above(path):
                    world.imagine(path, hints, shape=shapes.get(word))
        for path in reach:
            self._settle(path)
        trial.reach = frozenset(reach)
        trial.wide = bool(_WALK.search(command))
        if trial.wide or any(part.name in _LISTERS or part.name in self._functions for part in analysis.commands):
            self._seed(reach, text, analysis)
        if any(part.name not in _BLIND for part in analysis.commands):
            for world in self._worlds:
                for path in self._met(world, trial):
                    world.refresh(path, hints)
        return None

    def _met(self, world: World, trial: _Trial) -> set[str]:
        """The files that a command may read in a world."""
        files = set(trial.reach)
        if trial.wide:
            for folder in {*trial.reach, *([self._cwd] if self._cwd else [])}:
                if world.is_folder(folder):
                    files.update(path for path, kind in world.walk(folder) if kind == "file")
        return files

    def _words(self, analysis: ScriptAnalysis, text: str) -> set[str]:
        """Everything in a command that may be a path."""
        words = {r.path for r in analysis.redirects if r.path}
        computed = any(r.path is None for r in analysis.redirects)
        for part in analysis.commands:
            if part.name in {"echo", "printf"}:
                continue
            computed = computed or None in part.args or part.name is None
            words.update(w for w in part.args if w and not w.startswith("-") and _PATH.fullmatch(w))
        words.update(word for word in _RAW.findall(text) if not re.fullmatch(r"\.+|[0-9.]+", word))
        if computed:
            words.update(word for word in _WORD.findall(text) if word not in _LANGUAGE)
        for braces in _BRACES.findall(text):
            listed = self._worlds[0].bash.execute_sync(f"printf '%s\\n' {braces}").stdout.split("\n")
            words.update(word for word in listed if word and _PATH.fullmatch(word))
        return {word for word in words if len(word) < 256 and word not in {"/dev/null", "."}}  # noqa: PLR2004 - NAME_MAX

    def _seed(self, reach: Iterable[str], text: str, analysis: ScriptAnalysis) -> None:
        """Put made-up entries into the directories that the command looks at and that are not wholly known."""
        patterns = [_matching(glob) for glob in _GLOB.findall(text) if glob not in {"[", "[["}][:8]
        endings = [f"{_ANY}.{ending}" for ending in dict.fromkeys(_ENDING.findall(text))][:8]
        deep = any(part.name in _WALKERS for part in analysis.commands)
        for world in self._worlds[1:4]:
            folders = {path for path in reach if world.is_folder(path)}
            if self._cwd is not None:
                folders.add(self._cwd)
            if deep:
                for folder in list(folders):
                    folders.update(path for path, kind in world.walk(folder) if kind == "directory")
            for folder in folders:
                self._seed_folder(world, folder, [*patterns, *endings])

    def _seed_folder(self, world: World, folder: str, forms: list[str]) -> None:
        known = self._listed.get(folder)
        if known == "all" or self._is_fresh(folder) or world.token in folder:
            return
        if known == "files":
            world.folder(f"{folder}/zz_{world.token}")
            return
        there = {name for name, _ in world.entries(folder)}
        wanted = {".hid_" + world.token}
        if known is None:
            wanted.update(form.replace(_ANY, world.token) for form in (*_FORMS, *forms))
        for name in wanted - there:
            world.imagine(posixpath.join(folder, name), [], exists=True)

    def _resolve(self, word: str, world: World) -> str | None:
        if word == "~" or word.startswith("~/"):
            word = world.bash.shell_state().variables.get("HOME", "/") + word[1:]
        elif word.startswith("~"):
            return None
        path = posixpath.normpath(posixpath.join(world.cwd, word))
        return "/" + path.lstrip("/")

    def _settle(self, path: str) -> None:
        while path not in self._settled and path != "/":
            self._settled.add(path)
            path = posixpath.dirname(path)

    def _is_settled(self, path: str) -> bool:
        if path in self._settled or path == "/":
            return True
        parent, name = posixpath.split(path)
        known = self._listed.get(parent)
        return (known is not None and (known != "visible" or not name.startswith("."))) or self._is_fresh(path)

    def _is_fresh(self, path: str) -> bool:
        """Whether everything at and below a path was made in this session."""
        return any(path == made or path.startswith(made + "/") for made in self._fresh)

    def _cut_off(self, path: str, world: World) -> bool:
        """Whether a directory on the way to a path is known to be missing in a world."""
        parent = posixpath.dirname(path)
        while parent != "/":
            if self._is_settled(parent) and not world.is_folder(parent):
                return True
            parent = posixpath.dirname(parent)
        return False

    def _above(self, path: str) -> bool:
        """Whether a path is the working directory or on the way to it."""
        return self._cwd is not None and (self._cwd == path or self._cwd.startswith(path.rstrip("/") + "/"))


def _shows_errors(trial: _Trial):
    command = trial.effect.command or ""
    merges = "2>&1" in command or "&>" in command or ">&" in command
    return lambda outcome: bool(outcome.stderr) or merges


def _shapes(analysis: ScriptAnalysis) -> dict[str, str]:
    """What some paths must be if they are anything; that `> notes` meets a directory is too far-fetched to reckon with."""
    shapes = {r.path: "file" for r in analysis.redirects if r.path}
    for part in analysis.commands:
        if part.name == "mkdir" and "-p" in part.args:
            shapes.update((word, "folder") for word in part.args if word)
    return shapes


def _matching(glob: str) -> str:
    """A form, with `_ANY` in it, of names that match a glob."""
    name = posixpath.basename(glob.rstrip("/"))
    name = re.sub(r"\[[!^][^\]]*\]", "q", name)
    name = re.sub(r"\[(.)[^\]]*\]", r"\1", name)
    return name.replace("*", _ANY).replace("?", "q") if "*" in name or "?" in name else name


def _abstain(reason: Abstain, detail: str) -> Answer:
    return Answer(abstain=reason, detail=detail)
