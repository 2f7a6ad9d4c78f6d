"""`show`, `logs` and `events --follow` tell about one run, as it was and as it goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture
def failed(project: Any) -> Any:
    project("run", "flows:fragile", "--id", "f", "--title", "The [b]lamp[/b]", "--tag", "nightly")
    return project


def test_show_tells_how_a_run_stands_its_nodes_and_why_it_failed(failed: Any) -> None:
    shown = failed("show", "f")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert lines[:2] == ["run f", "workflow fragile (flows:fragile)"]
    assert "status failed, recoverable" in lines
    assert (
        lines[lines.index("next") + 1]
        == "outlast resume f repeats wants_repair and continues, after the cause is removed"
    )
    assert "title The [b]lamp[/b]" in lines
    assert any(line.startswith("note completed") and line.endswith('"before"') for line in lines)
    assert any(line.startswith("wants_repair failed") and "ValueError: broken" in line for line in lines)
    error = lines.index("error in node wants_repair")
    assert lines[error : error + 3] == [
        "error in node wants_repair",
        "ValueError: broken [red]here[/red]",
        "--verbose shows its traceback",
    ]


def test_the_traceback_is_shown_when_it_is_asked_for(failed: Any) -> None:
    assert "Traceback" not in failed("show", "f").stdout
    assert 'raise ValueError("broken [red]here[/red]")' in failed("show", "f", "--verbose").stdout


def test_programs_get_all_of_a_run(failed: Any) -> None:
    told = json.loads(failed("show", "f", "-o", "json").stdout)
    (listed,) = json.loads(failed("ps", "-o", "json").stdout)["runs"]
    assert set(listed) < set(told)
    assert (told["status"], told["entry"], told["title"]) == ("failed", "flows:fragile", "The [b]lamp[/b]")
    assert told["error"]["node"] == "wants_repair"
    first, second = told["nodes"]
    assert (first["node"], first["status"], first["output"], first["inputs"]) == (
        *("note", "completed", "before"),
        {"text": "before"},
    )
    assert (second["status"], second["attempt"], second["error"]["kind"]) == ("failed", 1, "builtins:ValueError")


def test_a_beginning_of_an_id_is_enough_and_pipes_get_the_whole(project: Any) -> None:
    project("run", "flows:nothing", "--id", "a-long-name")
    assert project("show", "a-l", "-o", "ids").stdout == "a-long-name\n"


def test_show_tells_children_steps_and_parameters(project: Any) -> None:
    project("run", "flows:family", "name=zoe", "--id", "p")
    shown = project("show", "p").stdout
    told = json.loads(project("show", "p", "-o", "json").stdout)
    assert 'params    {"name":"zoe"}' in shown
    assert 'result    "hello zoe"' in shown
    (child,) = told["children"]
    assert (child["workflow"], child["status"]) == ("greet", "completed")
    assert child["run"] in shown
    assert told["steps"] == [{"step": "indoors", "completed": True}]
    assert project("show", child["run"]).returncode == 0


def test_show_tells_what_a_run_waits_for_and_how_to_answer(project: Any) -> None:
    with project.begun("run", "flows:asking_twice", "--id", "q"):
        project.until(lambda: project("show", "q").stdout.count("outlast answer") == 2)
        shown = project("show", "q").stdout
        told = json.loads(project("show", "q", "-o", "json").stdout)
    assert "answer to “First?”" in shown
    assert [each["schema"] for each in told["questions"]] == [{"type": "string"}] * 2
    for question in told["questions"]:
        assert f"outlast answer q VALUE --interaction {question['id']}" in shown.replace("'", "")


def test_logs_are_shown_by_node_and_attempt(failed: Any) -> None:
    failed("resume", "f")
    assert [line.split()[2:] for line in failed("logs", "f").stdout.splitlines()] == [
        ["note", "INFO", "flows:", "noting", "before"],
        ["wants_repair", "WARNING", "flows:", "looking"],
        ["repair"],
        ["wants_repair", "#2", "WARNING", "flows:", "looking"],
        ["repair"],
    ]
    assert "noting before" in failed("logs", "f", "note").stdout
    assert "looking" not in failed("logs", "f", "note").stdout
    assert len(failed("logs", "f", "wants_repair", "--attempt", "2").stdout.splitlines()) == 2


def test_logs_for_programs_pipes_and_the_last_lines(failed: Any) -> None:
    lines = [json.loads(line) for line in failed("logs", "f", "-o", "json").stdout.splitlines()]
    assert [(line["node"], line["level"], line["text"]) for line in lines] == [
        ("note", "INFO", "noting before"),
        ("wants_repair", "WARNING", "looking\nfor the repair"),
    ]
    assert failed("logs", "f", "-o", "ids").stdout == "1\n2\n"
    assert failed("logs", "f", "--tail", "1", "-o", "ids").stdout == "2\n"
    assert failed("logs", "f", "--tail", "0").stdout == ""
    assert "node nobody has no log lines" in failed("logs", "f", "nobody").stderr
    assert failed("logs", "f", "--tail", "-1").returncode == 2


@pytest.mark.parametrize(("command", "first"), [("events", b"RunCreated"), ("logs", b"noting before")])
def test_what_is_followed_comes_as_it_happens_and_ends_with_the_run(command: str, first: bytes, project: Any) -> None:
    with project.begun("run", "flows:passing", "--id", "p") as process:
        project.until_there("at-the-gate")
        with project.begun(command, "p", "--follow") as following:
            assert first in following.stdout.readline()
            (project.folder / "open").touch()
            rest, err = following.communicate(timeout=30)
            assert (following.returncode, err) == (0, b"")
        process.wait(30)
    if command == "events":
        assert b"RunCompleted" in rest.splitlines()[-1]


def test_followed_events_are_those_of_the_log_once_each(project: Any) -> None:
    with project.begun("run", "flows:passing", "--id", "p"):
        project.until_there("at-the-gate")
        with project.begun("events", "p", "--follow", "-o", "ids", "--after", "2") as following:
            first = following.stdout.readline()
            (project.folder / "open").touch()
            rest, _ = following.communicate(timeout=30)
    told = [int(line) for line in (first + rest).splitlines()]
    assert told == list(range(3, told[-1] + 1))
    assert project("events", "p", "-o", "ids").stdout.split()[-1] == str(told[-1])


def test_a_branch_cannot_be_followed_nor_a_list_be_watched_without_a_terminal(failed: Any) -> None:
    assert (
        "--follow shows the current branch: omit --branch" in failed("events", "f", "--follow", "--branch", "0").stderr
    )
    watched = failed("ps", "--watch")
    assert (watched.returncode, watched.stdout) == (2, "")
    assert "--watch requires a terminal" in watched.stderr


# --- runs of every kind, and text that means no good


def test_every_kind_of_run_can_be_shown(shell: Any) -> None:
    for workflow, told in (
        ("digest", "completed"),
        ("approval", "outlast answer"),
        ("payout", f"  outlast resume {shell.runs['payout']}"),
        ("order", "signal payment received"),
        ("import", "line 17: not a number"),
        ("report", "completed"),
    ):
        run = shell.runs[workflow]
        shown = shell("show", run)
        assert shown.exit_code == 0, shown.output
        assert told in shown.stdout
        document = json.loads(shell("show", run, "-o", "json").stdout)
        assert (document["run"], document["workflow"]) == (run, workflow)
        assert shell("show", run[:18], "-o", "ids").stdout == f"{run}\n"


@pytest.mark.parametrize("width", [40, 80, 140])
def test_a_shown_run_fits_the_screen(width: int, shell: Any) -> None:
    for run in shell.runs.values():
        lines = shell("show", run, COLUMNS=str(width)).stdout.splitlines()
        commands = [line for line in lines if line.startswith("  outlast ")]
        assert max(len(line) for line in lines if line not in commands) <= width
        actions = json.loads(shell("show", run, "-o", "json").stdout)["actions"]
        useful = [each["command"] for each in actions if each["useful"]]
        assert all(any(line.startswith(f"  {each}") for line in commands) for each in useful)


def test_show_is_as_new_as_the_log_where_the_summary_is_behind(shell: Any) -> None:
    run = shell.runs["digest"]
    shell.damage("update catalogue set body = ? where run = ?", b"{", run)
    assert "completed" in shell("show", run).stdout


def test_text_of_runs_has_no_effect_on_the_terminal(project: Any) -> None:
    hostile = "\x1b[2J[red]x[/red]\r\x07\x9b31m\u202e"
    ran = project("run", "flows:greet", f"name={hostile}", "--title", hostile, "--tag", hostile, "--id", "h")
    assert ran.returncode == 0, ran.stderr
    for told in (ran.stdout, ran.stderr, project("show", "h").stdout, project("logs", "h").stdout):
        assert all(line.isprintable() for line in told.splitlines()), told
        assert "\x1b" not in told
