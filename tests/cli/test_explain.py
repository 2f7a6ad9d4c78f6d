"""`outlast explain` explains a run to people and programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.cells import cell_len


def test_a_failed_run_is_explained_with_the_commands_that_are_useful_next(project: Any) -> None:
    project("run", "flows:fragile", "--id", "f")
    told = project("explain", "f")
    assert (told.returncode, told.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in told.stdout.splitlines()]
    assert lines[0].startswith("Run f of workflow fragile failed after ")
    assert lines[0].endswith(": 1 node completed, 1 node failed.")
    assert any("note completed in " in line and line.endswith(': "before"') for line in lines)
    assert any("wants_repair failed after " in line and "ValueError: broken [red]here[/red]" in line for line in lines)
    (now,) = (line for line in lines if line.startswith("now "))
    assert now.startswith("now Failed: ValueError: broken [red]here[/red] (")
    assert "flows.py:61 in wants_repair)" in now
    assert "outlast resume f repeats wants_repair and continues, after the cause is removed" in lines


def test_a_killed_run_tells_of_the_lost_worker_and_of_what_was_repeated(project: Any) -> None:
    with project.begun("run", "flows:passing", "--id", "p") as process:
        project.until_there("at-the-gate")
        process.kill()
        process.wait(30)
    (project.folder / "open").touch()
    killed = project("explain", "p").stdout
    assert "now  Running." in killed
    assert "C1" in killed
    assert project("resume", "p").returncode == 0
    told = project("explain", "p").stdout
    assert " died; run taken over by " in told
    assert "gate scheduled again after an interruption (attempt 2)" in told
    assert "gate completed in " in told
    assert "Run completed in " in told


def test_every_kind_of_run_is_explained_with_what_it_waits_for(shell: Any) -> None:
    for workflow, said in (
        ("digest", "fetch completed in 95 ms (attempt 2)"),
        ("approval", "Waits for answer to “Publish 12 pages?”"),
        ("payout", "Held: a person must decide"),
        ("order", "Waits for signal payment received."),
        ("import", "ValueError: line 17: not a number"),
        ("report", "Branch 1 opened after event 7 (jump by cleo: too dry)"),
    ):
        told = shell("explain", shell.runs[workflow])
        assert told.exit_code == 0, told.output
        assert said in told.stdout


def test_a_branch_is_named_behind_the_beginning_of_an_id(shell: Any) -> None:
    run = shell.runs["report"]
    assert "on branch 0:" in shell("explain", f"{run[:18]}@0").stdout
    assert "on branch 1:" not in shell("explain", f"{run[:18]}@1").stdout
    missing = shell("explain", f"{run}@9")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "has no branch 9" in missing.stderr


def test_programs_get_the_entries_with_their_places(shell: Any) -> None:
    run = shell.runs["report"]
    told = json.loads(shell("explain", run, "-o", "json").stdout)
    assert (told["run"], told["status"], told["branch"], told["is_current"]) == (run, "completed", 1, True)
    assert [(each["kind"], each["seq"], each["last"]) for each in told["timeline"]["entries"]] == [
        ("RunCreated", 1, 1),
        ("NodeCompleted", 5, 5),
        ("BranchOpened", 9, 9),
        ("NodeCompleted", 10, 10),
        ("RunCompleted", 11, 11),
    ]
    assert told["actions"][0]["command"] == f"outlast compare {run}"
    full = json.loads(shell("explain", run, "--full", "-o", "json").stdout)
    assert [each["seq"] for each in full["timeline"]["entries"]] == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11]


@pytest.mark.parametrize("width", [40, 80, 140])
def test_an_explanation_fits_the_screen_and_its_commands_are_not_wrapped(width: int, shell: Any) -> None:
    for run in shell.runs.values():
        lines = shell("explain", run, COLUMNS=str(width)).stdout.splitlines()
        commands = [line for line in lines if line.lstrip().startswith("outlast ")]
        assert max(cell_len(line) for line in lines if line not in commands) <= width
        told = json.loads(shell("explain", run, "-o", "json").stdout)
        assert all(any(each["command"] in line for line in commands) for each in told["actions"])


def test_words_of_runs_have_no_effect_on_the_terminal(project: Any) -> None:
    hostile = "\x1b[2J[red]x[/red]\r\x07"
    project("run", "flows:greet", f"name={hostile}", "--title", hostile, "--id", "h")
    told = project("explain", "h").stdout
    assert "\x1b" not in told
    assert all(line.isprintable() for line in told.splitlines())
