"""One session of several worlds, without a process between."""

import shlex

import msgspec
import pytest

from verifierd.predictors.shell.envelope import Envelope
from verifierd.predictors.shell.profile import Profile
from verifierd.predictors.shell.sight import Effect, Sight
from verifierd.predictors.shell.worlds import Session
from verifierd.types import ObservationKind

CWD = "/home/me/p"
# All that is understood is allowed: what is certified is another matter.
ENVELOPE = Envelope(None, None)


class Told:
    """A session that is told steps in a few words."""

    def __init__(self, format_: str = "native", profile: str = "auto") -> None:
        self.format = format_
        self.session = Session(ENVELOPE, Profile(profile, format_))
        self.cwd: str | None = CWD
        self.turn: str | None = None
        self.source = ""
        self.clock: float | None = None

    def sight(self, effect: Effect | str) -> Sight:
        if isinstance(effect, str):
            effect = Effect("shell", effect)
        return Sight(
            self.format, effect, ObservationKind.ENV, self.cwd, self.turn, (), source=self.source, began=self.clock
        )

    def guess(self, command: str) -> str | None:
        return self.session.predict(self.sight(command)).text

    def saw(
        self,
        effect: Effect | str,
        observation: str | None = "",
        exit_code: int | None = 0,
        kind: ObservationKind = ObservationKind.ENV,
    ) -> None:
        seen = msgspec.structs.replace(
            self.sight(effect), kind=kind, observation=observation, exit_code=exit_code, ended=self.clock
        )
        self.session.observe(seen)


def test_reading_teaches() -> None:
    """What was read is known, whole files at once."""
    told = Told()
    told.saw("cat setup.cfg", "[a]\nb = 1\n")
    assert told.guess("wc -l setup.cfg") == "2 setup.cfg\n"
    told = Told()
    told.saw("ls -a", ".\n..\n.hid\nx.md\ny.txt\n")
    assert told.guess("ls *.txt") == "y.txt\n"
    assert told.guess("ls -1 *.md") == "x.md\n"
    told.saw("ls *.txt", "y.txt\n")
    assert told.guess("cat y.txt") is None


def test_visible_names_leave_hidden_ones_open() -> None:
    """A plain listing says nothing of hidden names."""
    told = Told()
    told.saw("ls", "x.md\n")
    assert told.guess("[ -e z.md ] && echo yes || echo no") == "no\n"
    told = Told()
    told.saw("ls", "x.md\n")
    assert told.guess("[ -e .z ] && echo yes || echo no") is None


def test_new_directory_is_empty() -> None:
    """A directory that was made is wholly known; one that may have been there is not."""
    told = Told()
    told.saw("mkdir new")
    assert told.guess("ls new") == ""
    told = Told()
    told.saw("mkdir -p new")
    assert told.guess("ls new") is None


def test_content_moved_into_a_new_directory_is_not_known() -> None:
    """What comes from elsewhere brings unknown things along."""
    told = Told()
    told.saw("mkdir new")
    told.saw("mv old new/")
    assert told.guess("ls new/old") is None
    assert told.guess("[ -e new/old/x ] && echo yes || echo no") is None


def test_unknown_tail_of_an_append() -> None:
    """What was appended to an unknown file may go on in its last line, so that not even its end is known."""
    for command in ("tail -n 1 log.txt", "cat log.txt", "wc -l log.txt", "head -n 1 log.txt", "grep -c a log.txt"):
        told = Told()
        told.saw("echo last >> log.txt")
        assert told.guess(command) is None, command


def test_learning_one_thing_is_not_learning_another() -> None:
    """An observation that refutes some forms of one file says nothing of other files."""
    told = Told()
    told.saw("touch kept.txt")
    told.saw("cat other.txt", "cat: other.txt: No such file or directory\n", 1)
    assert told.guess("cat kept.txt") is None


def test_existence_is_not_content() -> None:
    """That a file is there says nothing of what it holds."""
    for command in ("cat f.txt", "wc -l f.txt", "grep -c e f.txt"):
        told = Told()
        told.saw("[ -f f.txt ] && echo yes || echo no", "yes\n")
        assert told.guess(command) is None, command


def test_unknown_variables() -> None:
    """A variable that nobody set or showed is unknown, also in its length and as a default."""
    for command in ("echo $FLAVOUR", 'echo "${FLAVOUR:-none}"', "echo ${#FLAVOUR}", "[ -z $FLAVOUR ] && echo unset"):
        assert Told().guess(command) is None, command
    told = Told()
    told.saw("echo $FLAVOUR", "xterm\n")
    assert told.guess("echo ${#FLAVOUR}") == "5\n"


def test_variables_persist() -> None:
    """In a shell that lasts, variables and functions go on to the next step."""
    told = Told(profile="bash")
    told.saw("N=3")
    told.saw("twice() { echo $1 $1; }")
    assert told.guess("twice $N") == "3 3\n"


@pytest.mark.parametrize(
    ("step", "command"),
    [
        ("export FOO=bar", "echo ${FOO:-unset}"),
        ("N=3", "echo $((N + 1))"),
        ("hello() { echo hi; }", "hello"),
        ("cd sub", "cd -"),
        ("N=3", "echo $N > f; cat f"),
        ("unset FOO", "echo ${FOO:-unset}"),
    ],
)
def test_shell_may_be_new_in_each_step(step: str, command: str) -> None:
    """What earlier steps set in the shell is not relied on before anything shows that it lasts."""
    told = Told()
    told.saw(step)
    assert told.guess(command) is None


def test_shell_is_seen_to_last() -> None:
    """Only an answer that a new shell would not give shows that it lasts."""
    told = Told()
    told.saw("N=3")
    told.saw("echo ${N:-3}", "3\n")
    assert told.guess("echo $N") is None
    told.saw("echo $N", "\n")
    assert told.guess("echo $N") is None
    told.saw("echo $N", "3\n")
    assert told.guess("echo $N$N") == "33\n"


def test_one_session_of_a_log_shows_it_for_the_others() -> None:
    """Sessions of one log have one kind of shell; those of another log may have another."""
    lasting: set[str] = set()
    answers = []
    for source, command in (("a", "echo $N"), ("a", "echo $N"), ("b", "echo $N")):
        session = Session(ENVELOPE, Profile("auto", "native"), (), lasting)
        told = Told()
        told.session = session
        told.source = source
        told.saw("N=3")
        answers.append(told.guess(command))
        told.saw(command, "3\n" if source == "a" else "\n")
    assert answers == [None, "3\n", None]


def test_directory_is_unknown_after_a_move() -> None:
    """Where the log does not name the directory, the next step may start elsewhere than the last one ended."""
    told = Told()
    told.cwd = None
    told.saw("pwd", "/p\n")
    told.saw("mkdir sub && cd sub")
    assert told.guess("pwd") is None
    told.saw("pwd", "/p/sub\n")
    assert told.guess("pwd") == "/p/sub\n"


def test_an_opaque_command_makes_files_unknown() -> None:
    """A program may write anything; one that only reads changes nothing."""
    told = Told()
    told.saw("echo hi > a.txt")
    told.saw("git log", "fatal: not a git repository\n", 128)
    assert told.guess("cat a.txt") == "hi\n"
    told.saw("./configure", "done\n")
    assert told.guess("cat a.txt") is None


@pytest.mark.parametrize("kind", [ObservationKind.POLICY_DENIED, ObservationKind.HARNESS_ERROR])
def test_what_did_not_run(kind: ObservationKind) -> None:
    """A command that was not run has no effect."""
    told = Told()
    told.saw("echo hi > a.txt")
    told.saw("echo no > a.txt", "denied", None, kind)
    assert told.guess("cat a.txt") == "hi\n"


@pytest.mark.parametrize("kind", [ObservationKind.INTERRUPTED, ObservationKind.MISSING, ObservationKind.STUB])
def test_what_may_have_run(kind: ObservationKind) -> None:
    """A command that may have run makes unknown what it may have changed, unless it only reads."""
    told = Told()
    told.saw("echo hi > a.txt")
    told.saw("wc -l a.txt", "", None, kind)
    assert told.guess("cat a.txt") == "hi\n"
    told.saw("echo no > a.txt", "", None, kind)
    assert told.guess("cat a.txt") is None


def test_directory_of_the_log() -> None:
    """The log's directory is the truth; if it is not where the worlds went, what they knew is dropped."""
    told = Told()
    told.saw("mkdir sub && cd sub && echo hi > a.txt")
    told.cwd = f"{CWD}/sub"
    assert told.guess("cat a.txt") == "hi\n"
    told = Told()
    told.saw("X=1")
    told.cwd = "/elsewhere"
    assert told.guess("echo $X") is None
    assert told.guess("pwd") == "/elsewhere\n"


def test_unknown_directory() -> None:
    """Without a directory in the log it is unknown until shown, and followed from there."""
    told = Told(profile="bash")
    told.cwd = None
    assert told.guess("pwd") is None
    told.saw("pwd", "/srv/x\n")
    told.saw("mkdir y && cd y")
    assert told.guess("pwd") == "/srv/x/y\n"
    told.saw("cd $(find / -name q)", "")
    assert told.guess("pwd") is None


def test_status_of_the_step_before() -> None:
    """`$?` at the start of a step is abstained from, for harnesses differ; later in it, it is known."""
    told = Told()
    told.saw("false", "", 1)
    assert told.guess("echo $?") is None
    assert told.guess("false; echo $?") == "1\n"


def test_permissions_are_out_of_reach() -> None:
    """What may meet a path whose modes were taken away is not decided, for the virtual shell does not enforce them."""
    told = Told()
    told.saw("echo x > key; chmod 000 key")
    assert told.guess("cat key") is None
    assert told.guess("cat *") is None
    assert told.guess("echo fine") == "fine\n"


def test_a_mode_taken_from_an_unknown_path_locks() -> None:
    """Where it is not said whose modes were taken away, nothing is decided any more."""
    told = Told()
    told.saw('chmod 000 "$KEY"')
    assert told.guess("echo fine") is None


def test_links() -> None:
    """An unknown path may be a link, and a link that leads nowhere is no missing entry."""
    assert Told().guess("[ -L x ] && echo link") is None
    told = Told()
    told.saw("echo 1 > one; ln -s one two")
    told.saw("rm one; cat two", "cat: two: No such file or directory\n", 1)
    assert told.guess("ls two") == "two\n"


def test_files_of_coding_agents() -> None:
    """What a coding agent wrote is there, but a hook may have formatted it; what was shown since is known."""
    for write in (Effect("write", path=f"{CWD}/a.txt"), "cat > a.txt <<'EOF'\none\ntwo\nEOF", "echo one > a.txt"):
        told = Told("claude_code")
        told.saw(write, "written" if isinstance(write, Effect) else "", None)
        assert told.guess("cat a.txt") is None
        assert told.guess("head -4 a.txt") is None
        assert told.guess("test -f a.txt && echo there") == "there"
        told.saw("cat a.txt", "one\n2", None)
        told.saw(Effect("none"), "1: one", None)
        assert told.guess("head -1 a.txt") == "one"
        told.saw(Effect("write", path=f"{CWD}/a.txt"), "edited", None)
        assert told.guess("cat a.txt") is None
        told.saw("cat a.txt", "one", None)
        told.saw(Effect("any"), "done", None)
        assert told.guess("cat a.txt") is None


def test_turns_and_pauses_expire_knowledge() -> None:
    """When a person spoke to a coding agent, or it paused, files may have changed; in a recording nobody speaks."""
    for format_, expected in (("claude_code", None), ("native", "one\n")):
        told = Told(format_)
        told.saw("cat a.txt", "one\n")
        told.turn = "2"
        assert told.guess("cat a.txt") == expected
    for pause, expected in ((10.0, "one"), (3600.0, None)):
        told = Told("claude_code")
        told.clock = 100.0
        told.saw("cat a.txt", "one\n")
        told.clock += pause
        assert told.guess("head -1 a.txt") == expected


def test_portable_writes_need_proof() -> None:
    """In any shell but a recorded bash, a silent write is decided only where a write was seen to work."""
    told = Told("codex")
    assert told.guess("echo hi > a.txt") is None
    told.saw("echo hi > a.txt")
    assert told.guess("echo ho > b.txt") == ""


def test_running_in_the_background() -> None:
    """While a command still runs, files are never sure."""
    told = Told("codex")
    told.saw("npm run watch", "", None, ObservationKind.STILL_RUNNING)
    told.saw("echo hi > a.txt")
    assert told.guess("cat a.txt") is None


def test_contradiction_resets() -> None:
    """When reality contradicts a prediction, all that was derived is dropped, and the new observation taught."""
    told = Told()
    told.saw("X=1; echo hi > a.txt; echo ho > b.txt")
    told.saw("cat a.txt", "other\n")
    assert told.guess("cat a.txt") == "other\n"
    assert told.guess("cat b.txt") is None
    assert told.guess("echo $X") is None


def test_locale_is_learnt() -> None:
    """An order that only the C locale has lets later orders be decided."""
    told = Told()
    told.saw("printf '%s\\n' b C > w.txt")
    assert told.guess("sort w.txt") is None
    told.saw("sort w.txt", "C\nb\n")
    assert told.guess("printf '%s\\n' b C | sort") == "C\nb\n"
    told = Told()
    told.saw("printf '%s\\n' B a C > v.txt")
    told.saw("ls", "README\na.txt\nv.txt\n")
    assert told.guess("sort v.txt") == "B\nC\na\n"


def test_directories_made_where_nothing_was() -> None:
    """What is made, by whatever command, where nothing was known to be holds nothing else."""
    told = Told()
    told.saw("ls", "")
    told.saw("mkdir -p a/b a/c && echo x > a/f")
    assert told.guess("ls a") == "b\nc\nf\n"
    told.saw("cp -r a z")
    assert told.guess("find z | sort") == "z\nz/b\nz/c\nz/f\n"
    told.saw("mv z y")
    assert told.guess("rmdir y/c && ls y") == "b\nf\n"


def test_silent_chains_teach() -> None:
    """That all of a chain went well settles what it made, also where quoted text looks like a branch."""
    told = Told()
    told.saw("mkdir lib && printf 'f(x) | g\\n' > lib/m && touch lib/n")
    assert told.guess("ls lib; cat lib/m") == "m\nn\nf(x) | g\n"
    told = Told()
    told.saw("mkdir -p lib/in && echo 1 > lib/in/f && echo 2 > lib/g")
    assert told.guess("cat lib/in/f lib/g") == "1\n2\n"
    assert told.guess("ls lib") is None
    told = Told()
    told.saw("mkdir new 2>/dev/null; touch new/s")
    assert told.guess("ls new") is None


def test_a_made_directory_says_nothing_of_others() -> None:
    """Where the shell went elsewhere in between, the answer speaks of other paths than those named."""
    told = Told()
    told.saw("mkdir sub && cd sub && touch a.txt")
    told.cwd = f"{CWD}/sub"
    assert told.guess("ls") == "a.txt\n"
    told.saw("pwd", f"{CWD}/sub\n")
    assert told.guess("cat ../a.txt") is None


def test_silence_refutes_what_would_have_complained() -> None:
    """A world that would have complained, in whatever words, is refuted by silence."""
    told = Told()
    told.session = Session(Envelope(None, ()), Profile("auto", "native"))
    told.saw("echo a > one; echo b > two")
    assert told.guess("cat one two") == "a\nb\n"


def test_programs_that_are_not_there() -> None:
    """Who was told that a command was not found is told so again, until something may have brought it."""
    told = Told()
    told.saw("frob 1 > out.txt", "bash: line 1: frob: command not found\n", 127)
    assert told.guess("cat out.txt") == ""
    told.saw("echo odd >&2; echo even", "odd\neven\n")
    assert told.guess("frob || echo none") == "bash: line 1: frob: command not found\nnone\n"
    assert told.guess("echo a && frob 2>/dev/null; echo $?") == "a\n127\n"
    told.saw("jq . x", "bash: line 1: jq: command not found\n", 127)
    assert told.guess("echo {} | jq .") is None
    for bringer in ("frob() { echo hi; }", "make", "echo echo > frob", "export PATH=$PATH:/x"):
        told = Told()
        told.saw("frob", "bash: line 1: frob: command not found\n", 127)
        told.saw(bringer)
        answer = told.guess("frob")
        assert answer in {None, "hi\n"}, bringer


def test_settings_last_one_step() -> None:
    """Each native step has a shell of its own, so that a setting is gone with it; elsewhere nothing is decided."""
    told = Told()
    told.saw("shopt -s nullglob; echo x > f.txt")
    assert told.guess("echo fine") == "fine\n"
    told = Told(format_="codex", profile="bash")
    told.saw("shopt -s nullglob")
    assert told.guess("echo fine") is None


def test_modes_that_are_given_back() -> None:
    """A path that was opened again is decided again, and one that can still be read is read."""
    told = Told()
    told.saw("mkdir d && echo 1 > d/f")
    told.saw("chmod 555 d")
    assert told.guess("cat d/f") == "1\n"
    assert told.guess("[ -w d ] && echo yes") is None
    assert told.guess("touch d/g") is None
    told.saw("touch d/g", "touch: cannot touch 'd/g': Permission denied\n", 1)
    assert told.guess("rm d/f; chmod 755 d") is None
    told.saw("chmod 000 d; ls d", "ls: cannot open directory 'd': Permission denied\n", 2)
    assert told.guess("ls d") is None
    assert told.guess("chmod 755 d && rm d/f && ls d") == ""
    told = Told()
    told.saw("echo x > f")
    told.saw("echo y > f; chmod 000 f; rm f", "")
    told.saw("chmod 700 f")
    assert told.guess("cat f") is None


def test_who_was_kept_from_a_path_stays_so() -> None:
    """What was once denied is not decided."""
    told = Told()
    told.saw("echo z > shut/new", "bash: line 1: shut/new: Permission denied\n", 1)
    assert told.guess("rm -rf shut; ls -d shut") is None
    assert told.guess("echo fine") == "fine\n"


@pytest.mark.parametrize(
    "command",
    ["ls ..", "cd .. && ls", "ls .. | wc -l", "grep -rn foo ..", "cat ../*", "cd; ls", "cd - && ls", "ls ~ | wc -l"],
)
def test_what_is_elsewhere_is_not_known(command: str) -> None:
    """A directory that nobody showed is not empty only because the worlds begin that way."""
    assert Told().guess(command) is None


@pytest.mark.parametrize("command", ["ls", "ls .", "echo *", "ls ..", "ls -R", "find . | wc -l"])
def test_an_unknown_directory_is_not_empty(command: str) -> None:
    """Where the log does not say where a command runs, nothing is known of what is there."""
    told = Told()
    told.cwd = None
    assert told.guess(command) is None


def test_a_long_session() -> None:
    """A session has no end: the virtual shell's own limit of commands a session is lifted."""
    told = Told()
    told.saw("echo x > note.txt")
    told.saw("cat note.txt", "x\n")
    for _ in range(1200):
        told.saw("true")
    assert told.guess("cat note.txt") == "x\n"


def test_a_redirection_makes_a_file() -> None:
    """A new name is taken for a file's, unless it is, or was, a directory's."""
    told = Told()
    assert told.guess("echo x > basket && cat basket") == "x\n"
    assert told.guess("echo x > lib") is None
    told.saw("mkdir crate && cd crate && make", "")
    assert told.guess("echo x > crate") is None


def test_errors_before_output() -> None:
    """Some logs hold both in the order of writing, some errors after output: nothing is said until it was seen."""
    told = Told()
    assert told.guess("echo out; echo odd >&2") == "out\nodd\n"
    assert told.guess("echo odd >&2; echo out") is None
    told.saw("echo odd >&2; echo out", "out\nodd\n")
    assert told.guess("echo odd >&2; echo out") is None
    told.saw("echo odd >&2; echo out", "odd\nout\n")
    assert told.guess("echo odd >&2; echo out") == "odd\nout\n"


@pytest.mark.parametrize(
    "setting",
    [
        "IFS=:",
        'a=(1 2); echo "${a[*]}"; IFS=-; echo "${a[*]}"',
        "export LC_ALL=C",
        "CDPATH=..",
        "PATH=/nowhere",
        "declare -x POSIXLY_CORRECT=1",
    ],
)
def test_variables_that_change_what_commands_mean(setting: str) -> None:
    """After one was set for good, nothing is said of what comes."""
    told = Told(profile="bash")
    told.saw("x=a:b; echo $x", "a:b\n")
    assert told.guess("echo $x") == "a:b\n"
    told.saw(setting, "")
    told.saw("x=a:b; echo $x", "a b\n")
    assert told.guess("echo $x") is None


@pytest.mark.parametrize(
    "setting", ["(IFS=:; true)", "y=$(IFS=:; echo)", "IFS=: true", "PATH=$PATH:/opt/x", "export MY_PATH=/x"]
)
def test_variables_that_change_nothing_for_later(setting: str) -> None:
    """A setting for one command or a subshell is gone, and a longer search path finds what it found."""
    told = Told(profile="bash")
    told.saw("x=a:b; echo $x", "a:b\n")
    told.saw(setting, "")
    told.saw("x=a:c; echo $x", "a:c\n")
    assert told.guess("echo $x") == "a:c\n"


def test_functions_in_place_of_commands() -> None:
    """What a command of that name does is not known any more, nor what a function does that may call it."""
    told = Told(profile="bash")
    told.saw("show() { echo hi; }", "")
    assert told.guess("show") == told.guess("echo hi") == "hi\n"
    told.saw('echo() { builtin echo E "$@"; }', "")
    told.saw("show() { echo hi; }", "")
    assert told.guess("show") is told.guess("echo hi") is None
    assert told.guess("printf 'hi\\n'") == "hi\n"


def test_constants() -> None:
    """A variable that was made a constant cannot be given a value, if the shell lasts."""
    told = Told(profile="bash")
    told.saw("readonly LIMIT=1", "")
    assert told.guess("LIMIT=2") is told.guess("echo $LIMIT") is None
    assert told.guess("OTHER=2") == ""


def test_modes_are_forgotten_with_the_files() -> None:
    """A mode that was given is not remembered of a file that is known anew."""
    told = Told()
    told.saw("echo x > run.sh; chmod +x run.sh", "")
    assert told.guess("[ -x run.sh ] && echo y") == "y\n"
    told.saw("make", "")
    told.saw("cat run.sh", "x\n")
    assert told.guess("[ -x run.sh ] && echo y") is None


@pytest.mark.parametrize("name", ["{b}.txt", "x;y", "it's", "#h", "p&q", "a^b", "~tilde"])
def test_odd_names_are_unknown_as_well(name: str) -> None:
    """A file is not missing because its name is odd."""
    told = Told()
    assert told.guess(f"wc -l {shlex.quote(name)}") is told.guess(f"test -f {shlex.quote(name)} && echo y") is None
    told.saw(f"echo x > {shlex.quote(name)}", "")
    assert told.guess(f"cat {shlex.quote(name)}") == "x\n"


def test_names_that_cannot_be_held() -> None:
    """The virtual shell has no control characters in names; such a file is not missing, nor is anything else lost."""
    told = Told()
    told.saw("echo x > note.txt", "")
    told.saw("echo y > 'a\tb'", "")
    assert told.guess("test -f 'a\tb' && echo y") is None
    assert told.guess("cat note.txt") == "x\n"


def test_the_root_is_not_written_to() -> None:
    """A write at the top of the file system may be expected to fail."""
    told = Told()
    told.cwd = "/"
    assert told.guess("echo x > note.txt") is None


@pytest.mark.parametrize(
    ("command", "observation"),
    [
        ("touch no/x new", "touch: cannot touch 'no/x': No such file or directory\n"),
        ("mkdir no/x new", "mkdir: cannot create directory \u2018no/x\u2019: No such file or directory\n"),
        ("mv no f new", "mv: cannot stat 'no': No such file or directory\n"),
        ("tee no/x new < f", "tee: no/x: No such file or directory\na\n"),
    ],
)
def test_commands_go_on_after_an_error(command: str, observation: str) -> None:
    """Where the virtual shell gives up at the first error, it is not known what became of the other operands."""
    told = Told()
    told.saw("mkdir top && cd top", "")
    told.cwd = f"{CWD}/top"
    told.saw("echo a > f", "")
    assert told.guess("test -e new || echo no") == "no\n"
    told.saw(command, observation, 1)
    assert told.guess("test -e new || echo no") is None


def test_modes_are_set_after_an_error() -> None:
    """Of several paths, those that are there get their mode."""
    told = Told()
    told.saw("echo a > f", "")
    told.saw("chmod +x no f", "chmod: cannot access 'no': No such file or directory\n", 1)
    assert told.guess("[ -x f ] && echo y") in {"y\n", None}


def test_names_of_one_file() -> None:
    """A link that was made may still be there when nothing is known of the files any more."""
    told = Told()
    told.saw("echo a > f; ln -s f l", "")
    told.saw("make", "")
    told.saw("cat l", "a\n")
    told.saw("cat g", "a\n")
    told.saw("echo b > f", "")
    assert told.guess("cat l") is None
    assert told.guess("cat g") == "a\n"


def test_what_may_be_a_file_since() -> None:
    """Where a command that was not run here may have made a file, `mkdir -p` may fail."""
    told = Told()
    assert told.guess("mkdir -p out/a") == ""
    told.saw("truncate -s 0 out", "")
    assert told.guess("mkdir -p out/a") is None
    assert told.guess("mkdir -p other/a") == ""
