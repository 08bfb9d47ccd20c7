"""The runner of real bash."""

import os
import time
from pathlib import Path

import pytest

from verifierd.replay.bash import RealBash


def test_steps_share_directory_variables_and_functions() -> None:
    """A step sees the directory, variables, arrays and functions that earlier steps left."""
    with RealBash() as bash:
        bash.run("mkdir sub; cd sub; x='two words'; export Y=2; a=(p q); greet() { echo \"hi $1\"; }")
        assert bash.run("pwd").text == "/home/user/proj/sub\n"
        assert bash.run('echo "$x" $Y ${a[1]}; greet you').text == "two words 2 q\nhi you\n"
        assert bash.run("cd -").text == "/home/user/proj\n"


def test_status_is_not_carried() -> None:
    """Each step is a shell of its own, so `$?` starts at 0, and an exit does not end the session."""
    with RealBash() as bash:
        assert bash.run("X=1; exit 7").exit_code == 7
        assert bash.run("echo $? $X").text == "0 1\n"


def test_fresh_carries_the_directory_only() -> None:
    """With `fresh`, variables and functions are gone at the next step."""
    with RealBash(fresh=True) as bash:
        bash.run("mkdir d && cd d; X=1; f() { echo f; }")
        step = bash.run('pwd; echo "[$X]"; f')
        assert step.text == "/home/user/proj/d\n[]\nbash: line 1: f: command not found\n"
        assert step.exit_code == 127


def test_errors_read_as_harnesses_show_them() -> None:
    """Errors carry bash's own name and line, and come in the order of writing."""
    with RealBash() as bash:
        step = bash.run("echo a; cd nowhere; echo b")
        assert step.text == "a\nbash: line 1: cd: nowhere: No such file or directory\nb\n"
        assert bash.run('echo "open').exit_code == 2
        assert bash.run("cat /home/user/proj/none").text == "cat: /home/user/proj/none: No such file or directory\n"


def test_a_slow_command_is_killed_with_its_children() -> None:
    """Past the time limit the whole process group ends, and the state is as before."""
    with RealBash(timeout=0.3) as bash:
        step = bash.run("X=1; sleep 30 & echo $! > pid; sleep 30")
        assert step.timed_out
        pid = int((bash.project / "pid").read_text())
        for _ in range(100):  # the kernel ends it in its own time
            if not _is_running(pid):
                break
            time.sleep(0.05)
        assert not _is_running(pid)
        assert bash.run('echo "[$X]"').text == "[]\n"


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")  # a zombie that nobody waits for still takes signals
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_endless_output_is_cut() -> None:
    """Past the size limit the command is killed and the text cut."""
    with RealBash(limit=1000) as bash:
        step = bash.run("yes")
        assert step.truncated
        assert len(step.text) == 1000


def test_background_work_does_not_outlive_the_step() -> None:
    """A child that keeps the pipe open neither blocks the step nor survives it."""
    with RealBash(timeout=5) as bash:
        step = bash.run("sleep 60 & echo started")
        assert (step.text, step.timed_out) == ("started\n", False)


def test_permissions_are_real() -> None:
    """Commands run without root's rights, whoever started them."""
    with RealBash() as bash:
        step = bash.run("echo x > f; chmod 000 f; cat f")
        assert step.text == "cat: f: Permission denied\n"


def test_nothing_is_left_behind() -> None:
    """The throw-away home goes with the session, even with closed directories in it."""
    with RealBash() as bash:
        home = bash.home
        bash.run("mkdir -p a/b; chmod 000 a")
    assert not home.exists()


def test_reset_starts_over() -> None:
    """A reset session has an empty project and no variables."""
    with RealBash() as bash:
        bash.run("touch f; X=1; cd ..")
        bash.reset()
        assert bash.run('ls; pwd; echo "[$X]"').text == "/home/user/proj\n[]\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_can_be_given_to_the_runner() -> None:
    """A file that the caller made may be changed by commands once it is given to them."""
    with RealBash() as bash:
        path = bash.project / "f"
        path.write_text("a\n", encoding="utf-8")
        bash.own(path)
        assert bash.run("echo b >> f; cat f").text == "a\nb\n"
