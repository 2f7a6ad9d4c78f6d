"""`outlast compare` shows two lineages side by side, and `outlast branches` the tree they belong to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.cells import cell_len

from outlast.lifecycle.branching import BranchSummary
from outlast.views.build import branch_view
from outlast.views.text import tree


def test_the_branch_before_stands_on_the_left(shell: Any) -> None:
    run = shell.runs["report"]
    told = shell("compare", run)
    assert (told.exit_code, told.stderr) == (0, "")
    assert shell("compare", run, "--exit-code").exit_code == 1
    lines = told.stdout.splitlines()
    assert lines[0] == f"left   {run}@0  8 events"
    assert lines[1] == f"right  {run}@1  10 events, completed"
    assert lines[3] == "=  7 events are shared before the branches part"
    assert [line[0] for line in lines[4:8]] == [">", "≠", " ", ">"]
    assert lines[5].split()[1:5] == ["8", "NodeCompleted", "write", "completed:"]
    assert lines[6].strip() == 'output: "first try" → "second try"'
    assert lines[-1] == "1 different, 2 only right; 7 events the same."


def test_what_is_the_same_exits_with_0(shell: Any) -> None:
    run = shell.runs["digest"]
    told = shell("compare", run, run, "--exit-code")
    assert told.exit_code == 0
    assert told.stdout.splitlines()[-1] == "Both are the same: 12 events."


def test_two_real_runs_differ_in_what_was_asked_and_what_came_out(project: Any) -> None:
    for name in ("ada", "bob"):
        project("run", "flows:greet", f"name={name}", "--id", name)
    told = project("compare", "ada", "bob")
    assert (told.returncode, told.stderr) == (0, "")
    assert 'params.name: "ada" → "bob"' in told.stdout
    assert 'output: "hello ada" → "hello bob"' in told.stdout
    assert "different; " in told.stdout.splitlines()[-1]
    project("run", "flows:greet", "name=ada", "--id", "again")
    same = project("compare", "ada", "again")
    assert (same.returncode, same.stdout.splitlines()[-1][:18]) == (0, "Both are the same:")


def test_programs_get_every_row_with_both_events(shell: Any) -> None:
    run = shell.runs["report"]
    told = json.loads(shell("compare", f"{run}@0", f"{run}@1", "-o", "json").stdout)
    assert (told["same"], told["shared"], told["left"]["branch"], told["right"]["branch"]) == (False, 7, 0, 1)
    assert [row["verdict"] for row in told["rows"]] == ["right", "differs", "right"]
    assert told["rows"][1]["changes"] == [{"path": "output", "old": "first try", "new": "second try"}]
    assert told["rows"][1]["left"]["seq"] == 8
    assert told["counts"] == {"same": 0, "differs": 1, "left": 0, "right": 2}


def test_all_shows_what_is_the_same_too(shell: Any) -> None:
    digest, report = shell.runs["digest"], shell.runs["report"]
    some, everything = shell("compare", digest, report).stdout, shell("compare", digest, report, "--all").stdout
    assert "events are the same" in some or "event is the same" in some
    assert "are the same" not in everything
    assert len(everything.splitlines()) >= len(some.splitlines())


@pytest.mark.parametrize("width", [60, 80, 140])
def test_two_columns_fit_the_screen(width: int, shell: Any) -> None:
    for other in ("digest", "order"):
        told = shell("compare", shell.runs["report"], shell.runs[other], COLUMNS=str(width)).stdout
        assert max(map(cell_len, told.splitlines())) <= width


def test_a_run_without_branches_wants_something_to_be_compared_with(shell: Any) -> None:
    told = shell("compare", shell.runs["digest"])
    assert (told.exit_code, told.stdout) == (2, "")
    assert "name another run or branch" in told.stderr


def test_damage_is_no_difference(shell: Any) -> None:
    """Whoever asks by exit code must not take the one for the other."""
    run = shell.runs["digest"]
    shell.damage("delete from log where first = 5 and run = (select id from head where run = ?)", run)
    told = shell("compare", run, shell.runs["import"])
    assert (told.exit_code, told.stdout) == (3, "")
    assert "is missing" in told.stderr


# --- branches


def test_branches_are_a_tree_with_a_star_on_the_current_one(shell: Any) -> None:
    told = shell("branches", shell.runs["report"])
    assert (told.exit_code, told.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in told.stdout.splitlines()]
    assert lines[0] == "branch events opened ended why"
    assert lines[1].startswith("0 1–8, 2 nodes done ")
    assert lines[1].endswith("left while running the start of the run")
    assert lines[2].startswith("└─ 1 * 9–11, 1 node done ")
    assert lines[2].endswith("after event 7 completed jump by cleo: too dry")


def test_programs_and_pipes_get_the_branches(shell: Any) -> None:
    run = shell.runs["report"]
    told = json.loads(shell("branches", run, "-o", "json").stdout)
    assert [(each["branch"], each["parent"], each["cutoff"]) for each in told["branches"]] == [(0, None, 0), (1, 0, 7)]
    assert [each["current"] for each in told["branches"]] == [False, True]
    assert shell("branches", run[:18], "-o", "ids").stdout == f"{run}@0\n{run}@1\n"


def test_branches_hang_below_their_parents_in_the_order_they_opened() -> None:
    parents = (None, 0, 1, 0, 1, 3)
    found = [branch_view(BranchSummary(branch=number, parent=parent)) for number, parent in enumerate(parents)]
    assert [f"{guide}{each.branch}" for guide, each in tree(found)] == [
        "0",
        "├─ 1",
        "│  ├─ 2",
        "│  └─ 4",
        "└─ 3",
        "   └─ 5",
    ]
