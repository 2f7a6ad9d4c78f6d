"""`outlast explain` tells the story of a run to people and programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.cells import cell_len


def test_a_newcomer_reads_what_happened_and_what_to_type_next(project: Any) -> None:
    project("run", "flows:fragile", "--id", "f")
    told = project("explain", "f")
    assert (told.returncode, told.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in told.stdout.splitlines()]
    assert lines[0].startswith("Run f of workflow fragile failed after ")
    assert lines[0].endswith(": 1 node completed, 1 failed.")
    assert any("note completed in " in line and line.endswith(': "before".') for line in lines)
    assert any("wants_repair failed after " in line and "ValueError: broken [red]here[/red]." in line for line in lines)
    assert "now It failed, and can go on once the cause is gone." in lines
    assert "outlast resume f does wants_repair again and goes on, once the cause is gone" in lines


def test_a_killed_run_tells_of_the_kill_and_of_going_on(project: Any) -> None:
    with project.begun("run", "flows:passing", "--id", "p") as process:
        project.until_there("at-the-gate")
        process.kill()
        process.wait(30)
    (project.folder / "open").touch()
    assert project("resume", "p").returncode == 0
    told = project("explain", "p").stdout
    assert "gate was begun, and no result of it was recorded." in told
    assert "Its worker died, and another one took it over; done again: gate." in told
    assert "gate completed in " in told
    assert 'The run completed: "through".' in told


def test_every_kind_of_run_is_told_and_says_what_it_waits_for(shell: Any) -> None:
    for workflow, said in (
        ("digest", "fetch completed in 95 ms, at its 2nd attempt"),
        ("approval", "It waits for an answer to “Publish 12 pages?”."),
        ("payout", "It is held, a person has to decide"),
        ("order", "It waits for signal payment received."),
        ("import", "ValueError: line 17: not a number"),
        ("report", "cleo went back to event 7, NodeStarted of write, and opened branch 1: too dry"),
    ):
        told = shell("explain", shell.runs[workflow])
        assert told.exit_code == 0, told.output
        assert said in told.stdout


def test_a_branch_is_named_behind_the_beginning_of_an_id(shell: Any) -> None:
    run = shell.runs["report"]
    assert "as branch 0 had it" in shell("explain", f"{run[:18]}@0").stdout
    assert "as branch" not in shell("explain", f"{run[:18]}@1").stdout
    missing = shell("explain", f"{run}@9")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "has no branch 9" in missing.stderr


def test_programs_get_the_sentences_with_their_places(shell: Any) -> None:
    run = shell.runs["report"]
    told = json.loads(shell("explain", run, "-o", "json").stdout)
    assert (told["run"], told["status"], told["branch"], told["current"]) == (run, "completed", 1, True)
    assert [(each["about"], each["first"], each["last"]) for each in told["sentences"]] == [
        ("run", 1, 1),
        ("work", 3, 5),
        ("work", 6, 7),
        ("recovery", 9, 9),
        ("work", 10, 10),
        ("end", 11, 11),
    ]
    assert told["next"][0]["command"] == f"outlast compare {run}"
    assert len(json.loads(shell("explain", run, "--full", "-o", "json").stdout)["sentences"]) > 6


@pytest.mark.parametrize("width", [40, 80, 140])
def test_a_story_fits_the_screen(width: int, shell: Any) -> None:
    for run in shell.runs.values():
        lines = shell("explain", run, COLUMNS=str(width)).stdout.splitlines()
        assert max(map(cell_len, lines)) <= width


def test_words_of_runs_have_no_effect_on_the_terminal(project: Any) -> None:
    hostile = "\x1b[2J[red]x[/red]\r\x07"
    project("run", "flows:greet", f"name={hostile}", "--title", hostile, "--id", "h")
    told = project("explain", "h").stdout
    assert "\x1b" not in told
    assert all(line.isprintable() for line in told.splitlines())
