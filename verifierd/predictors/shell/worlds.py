"""One trajectory in several possible worlds: predicted where they agree, taught by what really happened."""

import posixpath
import re
import shlex
from collections.abc import Sequence
from itertools import takewhile

import msgspec
from bashkit import BashError, ScriptAnalysis

from verifierd.predictors.shell.anchor import Content, Lesson, Listing, Place, Tree, Value, lessons
from verifierd.predictors.shell.envelope import READERS, Envelope
from verifierd.predictors.shell.mentions import (
    absolute,
    folders_made,
    folders_named,
    hints,
    path_shapes,
    paths_named,
    patterns_named,
    references,
    settled_targets,
    skeleton,
    variables_named,
    write_targets,
)
from verifierd.predictors.shell.profile import Profile, refuse_portable
from verifierd.predictors.shell.reach import confined
from verifierd.predictors.shell.sight import Answer, Effect, Sight
from verifierd.predictors.shell.specs import SPECS
from verifierd.predictors.shell.taint import (
    discerns,
    files_read,
    folders_looked_at,
    hides_errors,
    is_set_first,
    is_simple,
    reads_what_it_finds,
    variables_weighed,
)
from verifierd.predictors.shell.terrain import Terrain, within
from verifierd.predictors.shell.traps import trap
from verifierd.predictors.shell.unfound import Unfound
from verifierd.predictors.shell.world import KINDS, Outcome, World
from verifierd.types import Abstain, ObservationKind

__all__ = ("Session",)

# Variables that the virtual shell sets by itself, to values of its own.
_GIVEN = frozenset({
    "EUID", "HOME", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "OLDPWD", "OPTIND", "OSTYPE", "PATH", "PPID", "PS4", "PWD",
    "SHELL", "SHLVL", "UID", "USER", "_",
})  # fmt: skip
# Variables with which every shell starts alike, or that follow from the command itself.
_PLAIN = frozenset({"BASH_REMATCH", "FUNCNAME", "IFS", "OPTARG", "OPTIND", "PWD", "REPLY"})
_WALK = re.compile(r"[*?\[]|\b(?:ls|find|tar|du|diff|xargs)\b|\s-\w*[rR]\w*\b")
# Commands that go down into directories, and those for which it matters what else is in one.
_WALKERS = frozenset({"chmod", "cp", "diff", "du", "find", "grep", "ls", "mv", "rm", "tar"})
_LISTERS = _WALKERS | {"ln", "rmdir", "tree", "xargs"}
# Commands that never look into files.
_BLIND = frozenset({
    None, "cd", "echo", "false", "find", "ls", "mkdir", "printf", "pwd", "rm", "rmdir", "touch", "true"
})  # fmt: skip
_MAKERS = frozenset({"cp", "ln", "mkdir", "mv", "split", "tar", "tee", "touch"})
_MOVERS = frozenset({"cp", "ln", "mv", "tar"})
_FOLDER_MAKERS = frozenset({"cp", "mkdir", "mv"})
# What may bring things of unknown content without naming them.
_BRINGERS = frozenset({None, "find", "ln", "tar", "xargs"})
_BINDERS = frozenset({"declare", "export", "let", "local", "read", "unset"})
_SETTINGS = frozenset({"alias", "enable", "exec", "hash", "shopt", "trap", "ulimit", "umask", "unalias"})
_MOVERS_ABOUT = frozenset({"cd", "popd", "pushd"})
_DECLARERS = frozenset({"declare", "local", "readonly", "typeset"})
_ATTRIBUTE = re.compile(r"-\w*[ilnru]")
# Variables that change how the shell reads commands and tools answer; of `PATH`, only what leaves out what it held.
_GOVERNS = re.compile(
    r"(?<![\w$])(?:IFS|CDPATH|GLOBIGNORE|POSIXLY_CORRECT|QUOTING_STYLE|LANG|LANGUAGE|(?:LC|GREP)_\w+"
    r"|PATH(?!=\S*\$\{?PATH\b))\+?="
)
_SETS = re.compile(r"(?:\bfor\s+|\bread\s+(?:-\w+\s+)*|\b(?=[A-Za-z_]\w*(?:\+\+|--|[-+*/]?=)))([A-Za-z_]\w*)")
_COMPARES = re.compile(r"[!=]=|\s=\s|=~|-(?:eq|ne|lt|le|gt|ge)\b|\bcase\b|\(\(")
# Modes that leave their owner everything; those that take only the writing.
_OPENING = re.compile(r"0?7[0-7]{2}|[ua]\+rwx|[ua]=rwx")
_READABLE = re.compile(r"0?[57][0-7]{2}|[ugoa]*-w")
_DENIED = re.compile(r"[^\n]*: Permission denied\n?")
_WRITERS = frozenset({"mkdir", "rm", "rmdir", "touch"})
# Commands that change nothing at all if they fail on their one operand.
_WHOLE = frozenset({"cat", "cd", "ls", "mkdir", "rm", "rmdir", "touch"})
_CLOSING = re.compile(r"0?[0-5][0-7]{2}|[ugoa]*[-=][rwx]*|[ugoa]+=.*")
# What may come upon paths that the command does not name.
_WALKS = re.compile(
    r"[*?\[$`~]|\.\.|\s-\w*[rR]|--recursive|\b(?:find|tar|xargs|du|eval|source|rmdir)\b|(?:^|\s)\.(?:\s|/?$)"
)
# Commands that change no file's text.
_HARMLESS = READERS | {"alias", "chmod", "shopt", "ulimit", "umask", "unalias"}
_CHANGES_PLACE = re.compile(r"\b(?:cd|pushd|popd|source|eval)\b|(?:^|[;&|]\s*)\.\s")
# GNU's forms of it: `cat: X: ...`, `ls: cannot access 'X': ...`, `head: cannot open 'X' for reading: ...`.
_NO_SUCH = re.compile(
    r"(?:^|: )(?:cannot [\w ]+ )?['\u2018]?([^:'\u2018\u2019\n]+)['\u2019]?(?: for reading)?"
    r": No such file or directory$",
    re.MULTILINE,
)
_PLAIN_NAME = re.compile(r"[\w./@%+,~-]+")
# What the virtual file system makes up by itself, and where only the superuser writes.
_SYNTHETIC = re.compile(r"/(?:etc|usr|bin|sbin|lib\w*|proc|sys|root|var|boot|run|dev/(?!null\b))(?:/|\b)")
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
_STATUS = re.compile(r"\$\{?\?")
_PLACES = 64
# Seconds between two steps in which somebody else may have been at work.
_PAUSE = 300.0
_LONGEST_PATH = 4096
# What the envelope says where the order of sorted lines is the locale's.
_LOCALE = "order depends on the locale"
# What it says where only the words, or their order, are not certified: that there are any is.
_WORDING = ("message ", "order of ", _LOCALE)
# What it says where the errors are not certified, and so is what was done in spite of them.
_ERRORS = ("message ", "error message ")
_DEPENDS = "depends on what nobody showed"


class _Trial(msgspec.Struct, kw_only=True):
    """A command and what became of it in the worlds.

    Attributes:
        effect, cwd: The step, as far as it tells one from another.
        analysis: The virtual shell's reading of the command; None if it could not.
        read_only: It changed nothing.
        refused: Why it was not run in the worlds.
        doubted: Why its outcomes are not certified; `doubts` says it world by world.
        open: Why it is not decided, where all else is well.
        outcomes: One for each world.
        doubtful: The paths within its reach that had different forms before.
        vacant: The paths that it may have made directories of, where there was nothing before, world by world.
        silent: It succeeded in reality and said nothing.
        text: The prediction, if it is decided.
        carried: What it uses of what earlier steps set in a shell that may not have lasted.
        anew: What it would do in world 0 if the shell had not.
        reach, wide: The paths that it named, and whether it looked about in its directory.
        variables: The variables that it named.
    """

    effect: Effect
    cwd: str | None
    analysis: ScriptAnalysis | None = None
    read_only: bool = False
    refused: str | None = None
    doubted: str | None = None
    doubts: list[str | None] = msgspec.field(default_factory=list)
    open: str = ""
    outcomes: list[Outcome] = msgspec.field(default_factory=list)
    doubtful: set[str] = msgspec.field(default_factory=set)
    vacant: list[set[str]] = msgspec.field(default_factory=list)
    silent: bool = False
    text: str | None = None
    carried: frozenset[str] = frozenset()
    anew: Outcome | None = None
    reach: frozenset[str] = frozenset()
    wide: bool = False
    blocked: bool = False
    variables: frozenset[str] = frozenset()

    @property
    def command(self) -> str:
        return self.effect.command or ""

    @property
    def ran(self) -> bool:
        """Whether it may have changed the worlds."""
        return self.refused is None and not self.read_only

    def is_belied(self, number: int) -> bool:
        """Whether a world would have said something, in whatever words and order, where reality was silent."""
        doubt, outcome = self.doubts[number], self.outcomes[number]
        return self.silent and doubt is not None and doubt.startswith(_WORDING) and bool(outcome.merged.strip())

    def shows_errors(self, outcome: Outcome) -> bool:
        """Whether error messages may be in the text."""
        return bool(outcome.stderr) or ">&" in self.command or "&>" in self.command


class Session:
    """What is known of one trajectory's machine.

    Args:
        envelope: What the virtual shell is trusted with.
        profile: The kind of shell; it learns with the session.
        worlds: The first worlds, made beforehand.
        lasting: The logs whose shells were seen to last from step to step, which all sessions add to.
    """

    def __init__(
        self, envelope: Envelope, profile: Profile, worlds: Sequence[World] = (), lasting: set[str] | None = None
    ) -> None:
        self.at = 0
        self.weight = 0
        self._envelope = envelope
        self._profile = profile
        self._worlds = [*worlds, *(World(number) for number in range(len(worlds), len(KINDS)))]
        self._terrain = Terrain(self._worlds)
        # Where a write was seen to work.
        self._writable: set[str] = set()
        # Variables that got a form in each world, and those of them whose value was learnt since.
        self._variables: set[str] = {"HOME"}
        self._values: set[str] = set()
        # Variables of which something was learnt, but not the value.
        self._vague: set[str] = set()
        # Functions, with the command that made each.
        self._functions: dict[str, tuple[ScriptAnalysis, str]] = {}
        self._cwd: str | None = None
        self._logs_cwd = False
        # The worlds' own directories mean nothing: a command was not run in them.
        self._strayed = True
        self._turn: str | None = None
        self._lasting: set[str] = set() if lasting is None else lasting
        self._source = ""
        # What steps set in the shell, which the next one has only if the shell lasts.
        self._carried: set[str] = set()
        # A step left the directory, and nothing shows where the next one started.
        self._wandered = False
        # When the last step was over, in seconds.
        self._ended: float | None = None
        # Something runs in the background and may write at any time.
        self._haunted = False
        self._locked: str | None = None
        # Paths whose modes were taken away, which the worlds do not enforce; True if they can still be read.
        self._closed: dict[str, bool] = {}
        # Paths whose modes were set.
        self._moded: set[str] = set()
        # What was written as a file or made a link at some time, be it known or not.
        self._written: set[str] = set()
        # What was named by commands that were not run here, and may be a file since.
        self._handled: set[str] = set()
        # Something was shown to be there that the session did not make.
        self._furnished = False
        # What was made, entered or listed as a directory at some time.
        self._folders: set[str] = set()
        # A symbolic link may have been made.
        self._linked = False
        # What links were made of and are called; and those of them that may still be two names of one file.
        self._aliases: set[str] = set()
        self._estranged: set[str] = set()
        # The stack of directories was used, which moves OLDPWD in ways of its own.
        self._stacked = False
        # Variables with attributes that outlive everything else.
        self._typed: set[str] = set()
        # Where `git init` made a repository, whose hooks nobody else wrote.
        self._repositories: set[str] = set()
        # Commands in whose place a function was put, if only for a while.
        self._shadowed: set[str] = set()
        self._unfound = Unfound()
        self._trial: _Trial | None = None

    # Predicting

    def predict(self, sight: Sight) -> Answer:
        """What the step's observation should be. The worlds go on from there: `observe` must follow for that step."""
        if reason := self._unfit(sight):
            return reason
        if not self._tried(sight):
            self._arrive(sight)
        if self._profile.windows or self._profile.rewritten:
            return _abstain(Abstain.UNPREDICTABLE, "the command in the log is not what ran")
        trial = self._try(sight)
        if trial.text is None:
            return _abstain(Abstain.UNPREDICTABLE, trial.refused or trial.doubted or trial.open)
        return Answer(text=trial.text, exit_code=trial.outcomes[0].exit_code)

    def follows(self, sight: Sight) -> bool:
        """Whether the worlds stand where this step starts, or have just tried this very step."""
        return not self.waiting or self._tried(sight)

    @property
    def waiting(self) -> bool:
        """Whether the worlds have gone on with a step that was not observed yet."""
        return self._trial is not None and self._trial.ran

    def _unfit(self, sight: Sight) -> Answer | None:
        if sight.kind is not ObservationKind.ENV:
            return _abstain(Abstain.NOT_ENV, "not an answer of the environment")
        if sight.effect.kind != "shell":
            return _abstain(Abstain.UNPREDICTABLE, "not a shell command")
        if sight.effect.command is None:
            return _abstain(Abstain.UNPREDICTABLE, "no text, or too long a command")
        if sight.siblings is None or not all(self._harmless(effect) for effect in sight.siblings):
            return _abstain(Abstain.RACY, "a parallel action may have changed the state")
        return None

    def _harmless(self, effect: Effect) -> bool:
        if effect.kind != "shell" or effect.command is None:
            return effect.kind == "none"
        try:
            analysis = self._worlds[0].bash.analyze(effect.command)
        except BashError:
            return False
        return self._envelope.is_read_only(analysis, effect.command)

    # Learning

    def observe(self, sight: Sight) -> None:
        """Take in what really happened."""
        self.at += 1
        self.weight += len(sight.observation or "") + len(sight.effect.command or "")
        trial = self._trial if self._tried(sight) else None
        self._trial = None
        if trial is None:
            self._arrive(sight)
        self._ended = sight.ended or self._ended
        self._profile.see(sight.effect.command, sight.observation, sight.cwd)
        denied = sight.kind in {ObservationKind.POLICY_DENIED, ObservationKind.HARNESS_ERROR}
        if sight.effect.kind != "shell":
            if not denied:
                self._use_tool(sight)
        elif sight.effect.command is None:
            self._lose_sight(None)
        elif denied:
            if trial is not None and trial.ran:
                self._lose_sight(trial)
        else:
            trial = trial or self._try(sight)
            if self._learn_unfound(trial, sight.observation) and trial.refused is not None:
                # Perhaps all that kept it from being run was a program that is not there.
                self._trial = None
                trial = self._try(sight)
            self._trial = None
            self._settle_trial(trial, sight)
            self._carry(trial)

    def _carry(self, trial: _Trial) -> None:
        """Remember what a step sets in the shell."""
        self._carried.update(_SETS.findall(trial.command))
        if trial.analysis is not None:
            self._carried.update(trial.analysis.functions)
            for part in trial.analysis.commands:
                if part.name in _BINDERS:
                    self._carried.update(word for word in part.args if word and word.isidentifier())
                if part.name in _MOVERS_ABOUT:
                    self._carried.add("OLDPWD")
                    self._wandered = True

    def _learn_unfound(self, trial: _Trial, observed: str | None) -> bool:
        """Take in which programs were not found; whether any is new."""
        analysis, before = trial.analysis, len(self._unfound.names)
        if analysis is None or observed is None or not self._profile.native:
            return False
        if not trial.read_only:
            self._unfound.forget(trial.command, trial.reach, analysis.functions)
        self._unfound.learn(analysis, observed, self._worlds[0])
        if self._profile.prefix is None and len(analysis.commands) == 1:
            self._profile.learn_prefix(f"bash: line 1: {analysis.commands[0].name}: command not found", observed)
        return len(self._unfound.names) > before

    def skip(self) -> None:
        """A step took place that must not be tried."""
        self.at += 1
        self._lose_sight(None)

    def _settle_trial(self, trial: _Trial, sight: Sight) -> None:  # noqa: C901, PLR0912 - one case after the other
        observed = sight.observation
        if sight.kind is not ObservationKind.ENV:
            if not trial.read_only:
                running = sight.kind is ObservationKind.STILL_RUNNING and not self._profile.native
                self._haunted = self._haunted or running
                self._lose_sight(trial)
            return
        if trial.carried and observed is not None and self._shows_lasting(trial, observed, sight.exit_code):
            self._lasting.add(self._source)
            trial.carried = frozenset()
        if trial.refused is not None or observed is None or trial.carried:
            if (
                not trial.read_only
                and trial.text is None
                and not _was_denied(trial.analysis, observed, sight.exit_code)
            ):
                self._lose_what_it_reached(trial)
                self._learn_unfound(trial, observed)
        else:
            self._compare(trial, observed, sight.exit_code)
            for outcome in trial.outcomes:
                if self._profile.prefix is None and trial.shows_errors(outcome):
                    self._profile.learn_prefix(outcome.merged, observed)
        if not self._profile.native and trial.analysis is not None:
            for path in write_targets(trial.analysis, trial.cwd, folders=False):
                # As with the agent's other tools.
                if self._terrain.agreed_text(path):
                    self._terrain.blur(path)
        if observed is not None and trial.analysis is not None:
            if self._profile.native and "Permission denied" in observed:
                self._learn_denial(trial.analysis, observed)
            self._learn(trial, trial.analysis, observed, sight.exit_code)

    def _compare(self, trial: _Trial, observed: str, code: int | None) -> None:
        """Keep the worlds that reality bears out."""
        trial.silent = not observed.strip() and code == 0
        belied = [trial.is_belied(number) for number in range(len(trial.outcomes))]
        if not all(belied) and any(belied):
            # What remains is certified if all that is not belied is.
            trial.doubted = next(
                (doubt for doubt, lie in zip(trial.doubts, belied, strict=True) if doubt and not lie), None
            )
        fit = [
            not lie
            and code in {None, outcome.exit_code}
            and (
                trial.doubted is not None
                or self._profile.matches(outcome.merged, observed, errors=trial.shows_errors(outcome))
            )
            for outcome, lie in zip(trial.outcomes, belied, strict=True)
        ]
        first = trial.outcomes[0]
        if not all(fit) and not self._refute(trial, fit):
            return
        if all(fit) and trial.doubted is not None and code is None and not trial.read_only:
            self._lose_sight(trial)
        elif all(fit) and trial.doubted is not None and trial.doubted.startswith(_ERRORS) and not trial.read_only:
            # Where the virtual shell gave up, the real command may have gone on with its other operands.
            self._lose_what_it_reached(trial)
        if all(fit) and trial.doubted is None and first.mixed:
            self._profile.ordered = True
        if all(fit) and trial.doubted == _LOCALE:
            self._profile.learn_order(observed)
        if all(fit) and first.exit_code == 0 and trial.analysis is not None:
            self._writable.update(posixpath.dirname(path) for path in write_targets(trial.analysis, trial.cwd))

    def _refute(self, trial: _Trial, fit: list[bool]) -> bool:
        """Give up the worlds that do not fit; False if all had to go, or none should."""
        # Outcomes that are not certified refute nothing; nor does a count, which may be right by chance, for made-up
        # entries are counted, too.
        vague = trial.doubted is not None or (trial.read_only and trial.wide)
        if any(fit) and not vague:
            self._follow([world for world, fits in zip(self._worlds, fit, strict=True) if fits], trial)
            return True
        if not trial.read_only or (not any(fit) and trial.text is not None):
            self._lose(trial)
        return False

    def _learn(self, trial: _Trial, analysis: ScriptAnalysis, observed: str, code: int | None) -> None:
        exact = not self._profile.trims
        for lesson in lessons(analysis, trial.command, trial.cwd, observed, code, exact=exact):
            if isinstance(lesson, Place):
                self._cwd, self._wandered = lesson.path, False
                for world in self._worlds:
                    world.enter(lesson.path)
            elif isinstance(lesson, Value):
                if lesson.name not in _PLAIN:
                    self._variables.add(lesson.name)
                    self._values.add(lesson.name)
                    self._vague.discard(lesson.name)
                    for world in self._worlds:
                        world.set_variable(lesson.name, lesson.text)
            else:
                if isinstance(lesson, Listing | Tree):
                    self._profile.learn_order(observed)
                self._furnished = self._furnished or not self._ours(lesson)
                self._terrain.learn(lesson)

    def _ours(self, lesson: Lesson) -> bool:
        """Whether the session itself may have made what a lesson shows to be there."""
        match lesson:
            case Content(path):
                shown = {path}
            case Listing(path, names):
                shown = {posixpath.join(path, name) for name in names}
            case Tree(_, files):
                shown = set(files)
            case _:
                shown = set()
        return shown <= self._written | self._folders

    def _use_tool(self, sight: Sight) -> None:
        """Other tools of the agent write files, too."""
        effect = sight.effect
        if effect.kind == "none":
            return
        if effect.kind == "any" or effect.path is None:
            self._forget_files()
            return
        # Not what was written: a hook of the agent may have formatted it since.
        self._terrain.blur(effect.path)
        if sight.kind is ObservationKind.ENV and not sight.failed:
            self._writable.add(posixpath.dirname(effect.path))

    def _follow(self, survivors: list[World], trial: _Trial) -> None:
        """Reality refuted some worlds: they become like one that stood, apart from what the step did not touch."""
        settled = within(trial.reach, trial.cwd, wide=trial.wide)
        unknown = self._variables - self._values
        self._vague |= unknown & trial.variables
        doubtful = self._terrain.doubtful(trial.reach, wide=trial.wide) if trial.read_only else set()
        refuted = [world for world in self._worlds if world not in survivors]
        models = [(world, world.tree()) for world in survivors[: len(refuted)]]
        shells: dict[int, bytes] = {}
        for count, world in enumerate(refuted):
            model, tree = models[count % len(models)]
            if not world.same_shell(model, unknown):
                if model.number not in shells:
                    shells[model.number] = model.bash.snapshot()
                world.adopt_shell(shells[model.number], unknown - trial.variables)
            if tree is None or not world.adopt(model, tree, settled):
                self._lose(trial)
                return
        if trial.read_only:
            trial.doubtful = doubtful
        left = trial.doubtful - self._settled_by(trial)
        # The answer may speak of one of them only, and which is not known; after `cd`, of none.
        vague = len(left) > 1 or bool(_CHANGES_PLACE.search(trial.command))
        if trial.vacant:
            self._terrain.freshen(trial.vacant, survivors, left if vague else ())
        if vague:
            self._terrain.unsettle(path for path in left if not self._terrain.is_fresh(path))

    def _settled_by(self, trial: _Trial) -> set[str]:
        """The paths whose form is known whatever it was before; only a silent success tells."""
        if trial.analysis is None or not trial.silent:
            return set()
        return settled_targets(trial.analysis, trial.command, trial.cwd)

    def _lose_what_it_reached(self, trial: _Trial) -> None:
        """A command that was not run here did something: forget what it can have touched."""
        analysis = trial.analysis
        paths = None
        if analysis is not None and self._profile.native:
            self._handled.update(*(self._operands(part.args) for part in analysis.commands))
        if analysis is not None and trial.cwd is not None and self._profile.native:
            paths = confined(
                analysis,
                trial.cwd,
                text=self._terrain.agreed_text,
                ours=self._repositories.__contains__,
                harmless=(_HARMLESS | self._unfound.names).__contains__,
            )
            if analysis.command_names and "git" in analysis.command_names and "init" in trial.command:
                self._repositories.add(trial.cwd)
        if paths is None:
            self._unfound.forget()
            self._lose_sight(trial)
        elif analysis is not None:
            modes = [part.args for part in analysis.commands if part.name == "chmod"]
            kept = {path for args in modes for path in self._operands(args[1:])}
            touched = [redirect.path for redirect in analysis.redirects if redirect.is_write]
            for part in analysis.commands:
                touched += part.args if part.name not in _HARMLESS else []
            kept = {
                path
                for path in kept
                if not any(f"{other}/".startswith(f"{path}/") for other in self._operands(touched))
            }
            # The worlds keep nobody from anything by a mode, so that it can be set there; one by one, for the virtual
            # shell stops at the first that is missing.
            for world in self._worlds if kept else ():
                for args in modes:
                    first = 2 if args[:1] == ["-R"] else 1
                    for word in args[first:]:
                        world.run(shlex.join(filter(None, ["chmod", *args[:first], word])), ordered=False)
            self._terrain.unsettle(paths - kept)

    def _lose_sight(self, trial: _Trial | None) -> None:
        """A command did something, and nobody knows what."""
        analysis = trial.analysis if trial is not None else None
        if analysis is None or analysis.is_opaque or analysis.functions or _binds(analysis):
            self._lose(trial)
        else:
            self._forget_place(trial)
            self._forget_files()
            self._strayed = True

    def _lose(self, trial: _Trial | None) -> None:
        """What is known is refuted or lost: start from nothing, in the same directory."""
        self._forget_place(trial)
        self._strayed = True
        self._trial = None
        self._variables = {"HOME"}
        self._values.clear()
        self._vague.clear()
        self._functions.clear()
        self._profile.forget()
        for world in self._worlds:
            world.reset()
        self._forget_files()
        if self._cwd is not None:
            for world in self._worlds:
                world.enter(self._cwd)

    def _forget_files(self) -> None:
        self._terrain.forget()
        self._moded.clear()
        self._estranged |= self._aliases

    def _forget_place(self, trial: _Trial | None) -> None:
        """Where the log does not say it, the directory is unknown after a command that may have left it."""
        self._variables.discard("OLDPWD")
        if not self._logs_cwd and (trial is None or _CHANGES_PLACE.search(trial.command)):
            self._cwd = None
            for world in self._worlds:
                world.enter(f"/w{world.token}")

    # Running

    def _tried(self, sight: Sight) -> bool:
        trial = self._trial
        return trial is not None and trial.effect == sight.effect and (sight.cwd is None or trial.cwd == sight.cwd)

    def _arrive(self, sight: Sight) -> None:
        """Be where the step starts."""
        self._source = sight.source
        # A person spoke, or had the time, and may have changed anything.
        spoken = sight.turn != self._turn and not self._profile.native
        paused = sight.began is not None and self._ended is not None and sight.began - self._ended > _PAUSE
        self._turn = sight.turn
        if spoken or paused or self._haunted:
            self._forget_files()
        self._logs_cwd = sight.cwd is not None
        if sight.cwd is None:
            if self._wandered and not self._is_lasting:
                for world in self._worlds:
                    world.enter(f"/w{world.token}")
            places = {world.cwd for world in self._worlds}
            self._cwd = places.pop() if len(places) == 1 else None
            return
        self._profile.place(sight.cwd)
        if not sight.cwd.startswith("/"):
            return
        cwd = posixpath.normpath(sight.cwd)
        there = [world for world in self._worlds if world.cwd == cwd]
        if self._profile.native and not self._strayed and len(there) < len(self._worlds):
            step = _Trial(effect=sight.effect, cwd=cwd, reach=frozenset({cwd}))
            if there:
                self._follow(there, step)
            else:
                self._lose(step)
        self._cwd = cwd
        self._terrain.settle(cwd)
        for world in self._worlds:
            world.enter(cwd)
        self._strayed = False

    def _try(self, sight: Sight) -> _Trial:  # noqa: C901 - one case after the other
        """Run the step's command in all worlds, if it may be run at all."""
        if self._trial is not None and self._tried(sight):
            return self._trial
        trial = self._trial = _Trial(effect=sight.effect, cwd=self._cwd)
        command = trial.command
        try:
            analysis = trial.analysis = self._worlds[0].bash.analyze(command)
        except BashError:
            trial.refused = "the virtual shell cannot parse it"
            self._strayed = True
            return trial
        trial.read_only = self._shadowed.isdisjoint(analysis.command_names) and self._envelope.is_read_only(
            analysis, self._unfound.stand_in(command)
        )
        # One `chmod` alone does what it does whatever the modes of what it is done to.
        alone = analysis.command_names == ["chmod"] and len(analysis.commands) == 1
        if not alone:
            self._note(analysis)
        self._shadowed.update(name for name in analysis.functions if name in SPECS)
        if _governs(analysis, command):
            self._locked = "settings of the shell were changed"
        values = self._known_values(command)
        trial.refused = self._refuse(analysis, command, values) or self._plant(analysis, trial)
        if alone:
            self._note(analysis)
        if trial.refused is not None:
            self._strayed = self._strayed or not trial.read_only
            return trial
        self._functions.update(dict.fromkeys(analysis.functions, (analysis, command)))
        if self._makes_folders(analysis, trial):
            trial.vacant = self._terrain.vacant(trial.reach)
        trial.carried = self._carries(analysis, command)
        if trial.carried:
            trial.anew = self._worlds[0].attempt(command, trial.carried, ordered=len(analysis.commands) > 1)
        for world in self._worlds:
            outcome = world.run(command, ordered=len(analysis.commands) > 1)
            if outcome.broken is not None:
                # What it did before it met a limit is in some worlds and not in others.
                self._lose(trial)
                self._trial = trial
                trial.refused = f"the virtual shell gave up: {outcome.broken[:80]}"
                trial.analysis, trial.read_only = None, False
                return trial
            trial.outcomes.append(self._repaired(outcome, trial))
        if trial.vacant:
            self._terrain.freshen(trial.vacant, self._worlds)
        self._decide(trial, analysis, values)
        if trial.carried:
            trial.text, trial.open = None, "nothing shows that the shell lasts from step to step"
        return trial

    @property
    def _is_lasting(self) -> bool:
        return self._profile.lasts or self._source in self._lasting

    def _carries(self, analysis: ScriptAnalysis, command: str) -> frozenset[str]:
        """What a command uses of what earlier steps set, as long as it is not known to have lasted."""
        if self._is_lasting:
            return frozenset()
        used = {name for name in variables_named(command) if not is_set_first(name, command)}
        return frozenset(self._carried & (used | set(analysis.command_names) - set(analysis.functions)))

    def _shows_lasting(self, trial: _Trial, observed: str, code: int | None) -> bool:
        """Whether an answer is one that a shell gives only if it has what earlier steps set."""
        if trial.anew is None or trial.refused is not None or trial.doubted is not None:
            return False
        if trial.carried == {"OLDPWD"}:
            # A shell that is new, but put where the last one was, may know it as well.
            return False
        first = trial.outcomes[0]
        return (
            bool(observed.strip())
            and (first.merged, first.exit_code) != (trial.anew.merged, trial.anew.exit_code)
            and all((one.merged, one.exit_code) == (first.merged, first.exit_code) for one in trial.outcomes)
            and code in {None, first.exit_code}
            and self._profile.matches(first.merged, observed, errors=trial.shows_errors(first))
        )

    def _makes_folders(self, analysis: ScriptAnalysis, trial: _Trial) -> bool:
        """Whether directories that it makes hold nothing but what it puts there, all of which is known."""
        tools = {part.name for part in analysis.commands}
        if trial.read_only or not self._profile.native or tools & {*_BRINGERS, *self._functions}:
            return False
        return bool(tools & _FOLDER_MAKERS) and not (
            tools & _MOVERS and any(self._is_foreign(path) for path in trial.reach)
        )

    def _refuse(  # noqa: PLR0911 - one reason a line
        self, analysis: ScriptAnalysis, command: str, values: dict[str, str]
    ) -> str | None:
        """Why a command is not run in the worlds."""
        if self._profile.portable or self._locked is not None:
            return self._locked or refuse_portable(analysis, command)
        if self._closed and self._meets_closed(analysis, command):
            return "permissions were taken away"
        if reason := trap(
            analysis,
            command,
            self._cwd,
            is_folder=lambda path: all(world.is_folder(path) for world in self._worlds),
            is_fresh=self._terrain.is_fresh,
            has_mode=lambda path: path in self._moded or self._terrain.is_fresh(path),
            linked=self._linked,
            stacked=self._stacked,
            variables=self._worlds[0].bash.shell_state().variables,
        ):
            return reason
        if not _SETTINGS.isdisjoint(analysis.command_names):
            # Each step has a shell of its own.
            return "settings of the shell were changed"
        status = _STATUS.search(command)
        if status and not re.search(r"[;&|\n]", command[: status.start()]):
            return "status of the step before"
        called = self._functions.keys() & set(analysis.command_names)
        if self._shadowed & set(analysis.command_names) or (self._shadowed and called):
            return "a function in a command's place"
        if self._unfound.eludes(analysis, command):
            return "a program that is not there"
        if reason := self._envelope.refuse_command(
            analysis, self._unfound.stand_in(command), functions=self._functions, values=values
        ):
            return reason
        computed = any(part.name in _MAKERS and None in part.args for part in analysis.commands)
        appends = any(r.mode == "append" and r.path is None for r in analysis.redirects)
        if (computed or appends) and not (self._cwd is not None and self._terrain.is_fresh(self._cwd)):
            return "writes to a computed name"
        unsure = self._vague & references(command) or self._typed & (references(command) | set(_SETS.findall(command)))
        return _DEPENDS if unsure else None

    def _plant(self, analysis: ScriptAnalysis, trial: _Trial) -> str | None:
        """Give everything unknown that the command may meet a form in each world; the reason if that cannot be done."""
        called = [text for name, (_, text) in self._functions.items() if name in analysis.command_names]
        names = {name for text in (trial.command, *called) for name in variables_named(text)}
        text = self._plant_variables(names, trial.command)
        words = paths_named(analysis, text, self._expand)
        if len(words) > _PLACES:
            return "names too many paths"
        if not self._profile.portable and any(_SYNTHETIC.match(word) for word in words):
            return "names a path of the system"
        if trial.read_only and self._walks_the_unknown(analysis):
            return _DEPENDS  # as the worlds would find out, at some cost
        # On a file in its way `mkdir -p` fails, but not in the virtual shell.
        made = set(folders_made(analysis, trial.cwd))
        doubtful = self._written | self._handled
        trial.blocked = any(path in doubtful and not self._terrain.is_settled(path) for path in made)
        clues = hints(trial.command)
        trial.reach = self._terrain.plant(
            words, path_shapes(analysis, None if self._furnished else self._folders, trial.cwd), clues
        )
        if not self._estranged.isdisjoint(trial.reach):
            return "perhaps another name of a file"
        trial.blocked = trial.blocked or any(
            world.exists(path) and not world.is_folder(path) for path in made for world in self._worlds
        )
        if _COMPARES.search(trial.command):
            # No world's form of the unknown is just what it is compared with; the real one may be.
            named = references(trial.command) - set(_SETS.findall(trial.command))
            unknown = any(map(self._is_open_variable, named))
            looked_up = analysis.has_command_substitution and self._terrain.doubtful(trial.reach, wide=False)
            trial.blocked = trial.blocked or unknown or bool(looked_up)
        trial.wide = bool(_WALK.search(trial.command))
        trial.variables = frozenset(names)
        tools = {part.name for part in analysis.commands}
        if trial.wide or tools & {*_LISTERS, *self._functions}:
            globbed = {posixpath.dirname(path) for path in trial.reach if path.endswith("/0q")}
            self._terrain.seed(trial.reach | globbed, patterns_named(text), deep=bool(tools & _WALKERS))
        if tools - _BLIND:
            self._terrain.refresh(trial.reach, clues, wide=trial.wide)
        if not trial.read_only:
            trial.doubtful = self._terrain.doubtful(trial.reach, wide=trial.wide)
        if "ln" in tools or (tools & _MOVERS and any(self._is_foreign(path) for path in trial.reach)):
            self._terrain.moved(trial.reach)
        return _DEPENDS if self._weighs_the_unknown(analysis, trial) else None

    def _weighs_the_unknown(self, analysis: ScriptAnalysis, trial: _Trial) -> bool:
        """Whether the worlds may agree on what a command makes of text that nobody showed, and be wrong together."""
        if any(self._is_open_variable(name) for name in variables_weighed(analysis, trial.command)):
            return True
        for name in self._functions.keys() & set(analysis.command_names) - set(analysis.functions):
            made, text = self._functions[name]
            if not is_simple(made, self._functions) or any(map(self._is_open_variable, variables_weighed(made, text))):
                return True
        if not discerns(analysis, trial.command):
            return False
        folders = {world.resolve(word) for word in folders_looked_at(analysis, trial.command) for world in self._worlds}
        read = files_read(analysis)
        if read is not None:
            read = {world.resolve(word) for word in read for world in self._worlds}
        # Archives differ in their dates.
        archives = self._written if "tar" in analysis.command_names else set[str]()
        return self._terrain.is_open(
            (trial.reach if read is None else trial.reach & read) - archives,
            folders,
            missing=hides_errors(analysis, trial.command),
            deep=reads_what_it_finds(analysis),
        )

    def _is_open_variable(self, name: str) -> bool:
        """Whether a variable has a value that nobody showed."""
        if name in _PLAIN - {"PWD"}:
            return False
        values = {world.bash.shell_state().variables.get(name) for world in self._worlds}
        made_up = any(world.token in (value or "") for world in self._worlds for value in values)
        return name in self._vague or len(values) > 1 or made_up

    def _walks_the_unknown(self, analysis: ScriptAnalysis) -> bool:
        """Whether `find` starts from a directory of which not all is known."""
        for part in analysis.commands:
            if part.name == "find":
                starts = [word or "." for word in takewhile(lambda word: not (word or "").startswith("-"), part.args)]
                for path in map(self._worlds[0].resolve, starts or ["."]):
                    if self._worlds[0].is_folder(path) and not self._terrain.is_fresh(path):
                        return True
        return False

    def _plant_variables(self, names: set[str], command: str) -> str:
        """Give unknown variables their forms; returns the command with the known ones filled in."""
        known = self._worlds[0].bash.shell_state().variables
        for name in sorted(names - _PLAIN - self._variables):
            if name not in known or (name in _GIVEN and name != "OLDPWD"):
                self._variables.add(name)
                for world in self._worlds:
                    world.variable(name)
        text = re.sub(r"\$\{?HOME\b\}?", "~", command)
        for name in sorted(names, key=len, reverse=True):
            value = known.get(name)
            if value is not None and len(value) < _LONGEST_PATH:
                for form in (f"${{{name}}}", f"${name}"):
                    text = text.replace(form, value)
        return text

    def _expand(self, braces: str) -> list[str]:
        listed = self._worlds[0].run(f"printf '%s\\n' {braces}", ordered=False)
        return [word for word in listed.stdout.split("\n") if word]

    def _is_foreign(self, path: str) -> bool:
        """Whether a path may be a directory whose content is not all known."""
        return not self._terrain.is_fresh(path) and any(world.is_folder(path) for world in self._worlds)

    def _decide(self, trial: _Trial, analysis: ScriptAnalysis, values: dict[str, str]) -> None:
        """Set the text if it is certain, else the reason why not."""
        first = trial.outcomes[0]
        doubts = {
            (outcome.stdout, outcome.stderr): self._doubt(outcome, trial, analysis, values)
            for outcome in {(outcome.stdout, outcome.stderr): outcome for outcome in trial.outcomes}.values()
        }
        trial.doubts = [doubts[outcome.stdout, outcome.stderr] for outcome in trial.outcomes]
        trial.doubted = next(filter(None, trial.doubts), None)
        if trial.doubted is not None:
            return
        agreed = all((one.merged, one.exit_code) == (first.merged, first.exit_code) for one in trial.outcomes)
        made_up = any(world.token in first.merged.lower() for world in self._worlds)
        if not agreed or made_up or not self._sure_of_absence(first):
            trial.open = _DEPENDS
        elif "\ufffd" in first.merged or "\0" in first.merged:
            trial.open = "not text"
        elif not self._may_write(analysis, trial.cwd):
            trial.open = "nothing shows that it may write there"
        elif trial.blocked:
            trial.open = _DEPENDS
        elif first.mixed and not self._profile.ordered:
            trial.open = "order of output and errors"
        else:
            trial.text = self._profile.spell(first.merged, errors=trial.shows_errors(first))
            trial.open = "" if trial.text is not None else "the form of the shell's errors was not seen yet"

    def _doubt(self, outcome: Outcome, trial: _Trial, analysis: ScriptAnalysis, values: dict[str, str]) -> str | None:
        if self._profile.portable:
            errs = outcome.stderr or (outcome.exit_code != 0 and "2>" in trial.command)
            return "errors differ between shells" if errs else None
        return self._envelope.refuse_output(
            analysis,
            self._unfound.stand_in(trial.command),
            outcome.stdout,
            self._unfound.errors_but_these(outcome.stderr, outcome.stdout, trial.command),
            values=values,
            collated=self._profile.collated,
            look=None if _CHANGES_PLACE.search(trial.command) else self._look,
        )

    def _look(self, word: str) -> str | None:
        """The text of a file, where it is known to the last character."""
        return self._terrain.agreed_text(self._worlds[0].resolve(word))

    def _repaired(self, outcome: Outcome, trial: _Trial) -> Outcome:
        if not trial.shows_errors(outcome):
            return outcome
        outcome = self._unfound.without_advice(outcome)
        return msgspec.structs.replace(
            outcome,
            stderr=self._envelope.repair(outcome.stderr, self._cwd or ""),
            merged=self._envelope.repair(outcome.merged, self._cwd or ""),
        )

    def _note(self, analysis: ScriptAnalysis) -> None:
        """Remember what the worlds cannot show: settings of the shell, and modes, which nothing enforces."""
        self._written.update(write_targets(analysis, self._cwd, folders=False))
        self._folders.update(folders_named(analysis, self._cwd))
        for number, part in enumerate(analysis.commands):
            if part.name == "ln":
                self._linked = True
                self._aliases.update(self._operands([word for word in part.args if word and word[0] != "-"]))
            if part.name in {"pushd", "popd"}:
                self._stacked = True
            if part.name == "readonly" or (
                part.name in _DECLARERS and any(word is None or _ATTRIBUTE.match(word) for word in part.args)
            ):
                # What later assignments mean is another thing then.
                self._typed.update(word.split("=")[0] for word in part.args if word and not word.startswith("-"))
            if part.name in _SETTINGS and not self._profile.native:
                self._locked = "settings of the shell were changed"
            if part.name != "chmod":
                continue
            self._moded.update(self._operands(part.args[1:]))
            mode = part.args[0] if part.args else None
            if number == 0 and mode is not None and _OPENING.fullmatch(mode):
                for path in self._operands(part.args[1:]):
                    self._closed.pop(path, None)
            elif any(word is None or _CLOSING.fullmatch(word) for word in part.args):
                self._close(part.args)

    def _learn_denial(self, analysis: ScriptAnalysis, observed: str) -> None:
        """What somebody was kept from is closed, and so is what it is in: one of the two is the cause."""
        words = [redirect.path for redirect in analysis.redirects]
        writes = any(redirect.is_write for redirect in analysis.redirects)
        for part in analysis.commands:
            words += part.args
            writes = writes or part.name in _WRITERS
        for path in self._operands([word for word in words if word and word in observed]):
            above = posixpath.dirname(path)
            if above != self._cwd:
                self._closed[above] = writes and self._closed.get(above, True)
            if above == self._cwd or not writes:
                self._closed[path] = False

    def _operands(self, args: Sequence[str | None]) -> list[str]:
        return [absolute(word, self._cwd) for word in args if word]

    def _close(self, args: Sequence[str | None]) -> None:
        words = [word for word in args if word is not None and not _CLOSING.fullmatch(word)]
        if len(words) != len(args) - 1 or self._cwd is None or not all(map(_PLAIN_NAME.fullmatch, words)):
            self._locked = "permissions were taken away"
        else:
            readable = bool(_READABLE.fullmatch(args[0] or ""))
            self._closed.update((path, readable and self._closed.get(path, True)) for path in self._operands(words))

    def _meets_closed(self, analysis: ScriptAnalysis, command: str) -> bool:
        """Whether a command may come upon a path whose modes were taken away."""
        if self._cwd is None or _WALKS.search(command):
            return True
        if analysis.command_names == ["chmod"] and len(analysis.commands) == 1:
            paths = self._operands(analysis.commands[0].args[1:])
            return any(path.startswith(f"{closed}/") for path in paths for closed in self._closed)
        reads = self._envelope.is_read_only(analysis, command) and "-w" not in command
        return any(
            posixpath.basename(path) in command
            or path.startswith(f"{self._cwd}/../")
            or self._cwd == path
            or self._cwd.startswith(f"{path}/")
            for path, readable in self._closed.items()
            if not (readable and reads)
        )

    def _sure_of_absence(self, outcome: Outcome) -> bool:
        """Whether every path that is said to be missing is known to be."""
        world = self._worlds[0]
        for name in _NO_SUCH.findall(outcome.merged):
            path = world.resolve(name.strip())
            if not _PLAIN_NAME.fullmatch(name) or world.is_blocked(path):
                # GNU quotes it in a way of its own, or says that something on the way is no directory.
                return False
            if not self._terrain.is_settled(path) and not self._terrain.is_cut_off(path, world):
                return False
        return True

    def _may_write(self, analysis: ScriptAnalysis, cwd: str | None) -> bool:
        """Native recordings run in a directory of their own; elsewhere a write must have been seen to work."""
        for path in write_targets(analysis, cwd):
            parent = posixpath.dirname(path)
            if parent in self._writable or self._terrain.is_fresh(parent):
                continue
            if not self._profile.native or parent == "/" or path.startswith(_SYSTEM):
                return False
        return True

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


def _was_denied(analysis: ScriptAnalysis | None, observed: str | None, code: int | None) -> bool:
    """Whether all that a command did was to be told that it may not."""
    if analysis is None or len(analysis.commands) != 1 or analysis.redirects or not code:
        return False
    part = analysis.commands[0]
    return part.name in _WHOLE and len(part.args) == 1 and bool(_DENIED.fullmatch(observed or ""))


def _binds(analysis: ScriptAnalysis) -> bool:
    """Whether a command sets variables."""
    return any(part.assignments or part.name in _BINDERS for part in analysis.commands)


def _governs(analysis: ScriptAnalysis, command: str) -> bool:
    """Whether a command sets, for later ones too, a variable that changes what they mean."""
    lasting = any(part.name is None and part.assignments for part in analysis.commands)
    if not lasting and _DECLARERS.isdisjoint(analysis.command_names) and "export" not in analysis.command_names:
        return False
    bare = skeleton(command)
    # What a subshell sets is gone with it.
    return any(bare.count("(", 0, at) <= bare.count(")", 0, at) for at in (m.start() for m in _GOVERNS.finditer(bare)))


def _abstain(reason: Abstain, detail: str) -> Answer:
    return Answer(abstain=reason, detail=detail)
