"""`outlast delete` and `outlast prune`."""

from __future__ import annotations

import json
from typing import Any


def test_a_run_is_deleted_and_its_id_is_refused_by_every_command(shell: Any) -> None:
    run = shell.runs["report"]
    assert "Confirm with --yes" in shell("delete", run).stderr
    answer = shell("delete", run, "--yes", "--by", "anna", "--reason", "old")
    assert (answer.exit_code, f"run {run} was deleted" in answer.stderr) == (0, True), answer.stderr
    assert run not in shell("ps", "--all", "-o", "ids").stdout
    for command in ("show", "events", "explain", "resume", "cancel", "verify", "doctor", "export", "logs", "delete"):
        refused = shell(command, run)
        assert refused.exit_code == 2, command
        assert f"run {run} was deleted on " in refused.stderr, command
        assert "by anna: old" in refused.stderr, command
    assert shell("verify", "--all").exit_code == 0
    assert f"run {run}" not in shell("doctor", "--all").stdout
    copy = str(shell.folder / "copy.db")
    assert shell("db", "backup", copy).exit_code == 0
    assert f"run {run} was deleted on" in shell("show", run, "--store", copy).stderr
    found = json.loads(shell("db", "info", "-o", "json").stdout)
    assert (found["deleted"], sum(found["runs"].values())) == (1, len(shell.runs) - 1)


def test_what_may_not_be_deleted_is_refused_and_the_others_are_deleted(shell: Any) -> None:
    waiting, over, held = (shell.runs[each] for each in ("approval", "report", "payout"))
    answer = shell("delete", waiting, over, held, "--yes", "-o", "ids")
    assert (answer.exit_code, answer.stdout.split()) == (2, [over])
    assert f"run {waiting} is waiting: cancel it first" in answer.stderr
    assert f"run {held} is held and can be resumed" in answer.stderr
    assert shell("delete", held, "--yes", "--force").exit_code == 0


def test_prune_shows_first_what_it_would_delete(shell: Any) -> None:
    before = shell("ps", "--all", "-o", "ids").stdout
    planned = json.loads(shell("prune", "--older", "1s", "--dry-run", "-o", "json").stdout)
    assert planned["dry_run"] is True
    assert planned["runs"] > 0
    assert any("is held" in why for why in planned["refused"])
    assert shell("ps", "--all", "-o", "ids").stdout == before
    assert "Confirm with --yes" in shell("prune", "--older", "1s").stderr
    assert shell("prune", "--older", "1s", "--status", "held", "--yes").exit_code == 2
    nothing = shell("prune", "--older", "36500d", "--yes", "-o", "json")
    assert json.loads(nothing.stdout)["runs"] == 0
    done = json.loads(shell("prune", "--older", "1s", "--yes", "-o", "json").stdout)
    assert (done["runs"], done["refused"]) == (planned["runs"], planned["refused"])
    assert shell("verify", "--all").exit_code == 0
