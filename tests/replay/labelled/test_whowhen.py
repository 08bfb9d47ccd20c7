"""Who&When runs: what touches the world is told from what agents say to each other."""

from typing import Any

from tests.replay.labelled.conftest import Read

CODE = "Let us count.\n```python\nprint(1 + 1)\n```\nThen we install.\n```sh\npip install x\n```\nDone."

TERMINAL: dict[str, Any] = {
    "history": [
        {"role": "assistant", "name": "Planner", "content": "Here is a ```plan``` without code."},
        {"role": "user", "name": "Computer_terminal", "content": "There is no code from the last 1 message."},
        {"role": "assistant", "name": "Coder", "content": CODE},
        {"role": "user", "name": "Computer_terminal", "content": "exitcode: 1 (execution failed)\nCode output: 2\n"},
        {"role": "user", "name": "Computer_terminal", "content": "exitcode: 0 (execution succeeded)\nCode output: "},
        {"role": "assistant", "name": "Coder", "content": "It is 2."},
    ]
}

TEAM: dict[str, Any] = {
    "history": [
        {"role": "human", "content": "What does the page say?"},
        {"role": "Orchestrator (-> WebSurfer)", "content": "Open the page."},
        {"role": "WebSurfer", "content": "I clicked 'Home'.\n\nHere is a screenshot of [Home](x). It says hello."},
        {"role": "WebSurfer", "content": "The page says hello."},
        {"role": "Orchestrator (-> FileSurfer)", "content": "Open notes.txt."},
        {"role": "Orchestrator (thought)", "content": "Next speaker FileSurfer"},
        {"role": "FileSurfer", "content": "Address: file:///notes.txt\n=====\nmilk"},
        {"role": "FileSurfer", "content": "I cannot do that."},
        {"role": "Orchestrator (-> ComputerTerminal)", "content": "Run this:\n```python\nprint(3)\n```"},
        {"role": "Orchestrator (thought)", "content": "Next speaker ComputerTerminal"},
        {
            "role": "ComputerTerminal",
            "content": "The script ran, then exited with Unix exit code: 0\nIts output was:\n3",
        },
        {"role": "ComputerTerminal", "content": "No code block detected in the messages."},
    ]
}


def test_code_that_ran_is_a_step(read: Read) -> None:
    """Its action is the fenced code of the message before, its status what the terminal says."""
    found = read(TERMINAL, bad_steps=[2])
    (step,) = found.run.steps

    assert step.action.input == "```python\nprint(1 + 1)\n```\n```sh\npip install x\n```"
    assert (step.tool, step.domain, step.exit_code) == ("Computer_terminal", "terminal", 1)
    assert step.observation == "exitcode: 1 (execution failed)\nCode output: 2\n"
    assert (found.positions, found.observed) == ({1: 2}, {1: 3})
    assert found.bad == {1}


def test_only_the_decisive_step_is_judged(read: Read) -> None:
    """What an agent merely says is no step: a label there is unplaced."""
    found = read(TERMINAL, bad_steps=[5], first_bad_step=5)

    assert (found.bad, found.judged, found.first_bad, found.unplaced) == (frozenset(), frozenset(), 5, 1)


def test_surfers_act_and_see(read: Read) -> None:
    """A web surfer's message is split where the page begins; summaries and refusals are talk."""
    found = read(TEAM, bad_steps=[2])
    web, file, terminal = found.run.steps

    assert (web.tool, web.action.input) == ("WebSurfer", "I clicked 'Home'.")
    assert web.observation == "Here is a screenshot of [Home](x). It says hello."
    assert (file.action.input, file.observation) == ("Open notes.txt.", TEAM["history"][6]["content"])
    assert (terminal.action.input, terminal.exit_code) == ("```python\nprint(3)\n```", 0)
    assert [step.domain for step in found.run.steps] == ["web", "web", "terminal"]
    assert found.positions == {1: 2, 2: 6, 3: 8}
    assert found.bad == found.judged == frozenset({1})


def test_a_second_opinion_counts_from_one(read: Read) -> None:
    """It is given in the set's positions all the same."""
    found = read(TEAM, bad_steps=[2], agentrx_root_cause_step_1based=5)

    assert found.second == {4}
