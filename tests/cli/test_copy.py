"""`outlast copy`: runs brought to another store by hand, as a real process and in place."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

SLOW = """
import sys, time
from outlast.stores.sqlite import SqliteStore

append = SqliteStore.append

async def slowly(self, batch):
    time.sleep(0.02)
    return await append(self, batch)

SqliteStore.append = slowly
sys.argv = ["outlast", *sys.argv[1:]]
from outlast.cli import main
main()
"""


def test_all_runs_are_copied_and_a_second_time_nothing_is(shell) -> None:  # type: ignore[no-untyped-def]
    first = shell("copy", "--from", str(shell.store), "--to", "there.db", "--all")
    assert first.exit_code == 0, first.output
    assert f"{len(shell.runs)} runs copied" in first.output
    assert shell("verify", "--store", "there.db", "--all").exit_code == 0
    second = shell("copy", "--from", str(shell.store), "--to", "there.db", "--all")
    assert second.exit_code == 0
    assert "going on" not in second.output
    assert second.output.count("0 events and 0 blobs copied, there already") == len(shell.runs)


def test_a_copy_without_a_target_is_refused(shell) -> None:  # type: ignore[no-untyped-def]
    """P11"""
    refused = shell("copy", "--all")
    assert refused.exit_code == 2
    assert "Missing option '--to'" in refused.output


def test_one_run_is_named_by_the_beginning_of_its_id(shell) -> None:  # type: ignore[no-untyped-def]
    run = next(iter(shell.runs.values()))
    done = shell("copy", "--from", str(shell.store), "--to", "there.db", run)
    assert done.exit_code == 0
    assert "1 run copied" in done.output
    assert shell("ps", "--store", "there.db", "--all", "-o", "ids").stdout.split() == [run]


def test_the_source_is_the_store_of_the_project_if_none_is_named(shell) -> None:  # type: ignore[no-untyped-def]
    run = next(iter(shell.runs.values()))
    Path("outlast.toml").write_text(f'store = "{shell.store}"')
    done = shell("copy", run, "--to", "there.db")
    assert done.exit_code == 0, done.output
    assert shell("ps", "--store", "there.db", "--all", "-o", "ids").stdout.split() == [run]


def test_a_run_that_went_to_another_store_is_copied_to_a_third_one_only_by_force(shell) -> None:  # type: ignore[no-untyped-def]
    run = shell.runs["approval"]
    assert shell("copy", run, "--from", str(shell.store), "--to", "second.db").exit_code == 0
    refused = shell("copy", run, "--from", str(shell.store), "--to", "third.db")
    assert refused.exit_code == 2
    assert "second.db and continues there" in refused.output
    assert "--force" in refused.output
    forced = shell("copy", run, "--from", str(shell.store), "--to", "third.db", "--force")
    assert forced.exit_code == 0
    assert "going on" in forced.output


def test_a_run_that_went_to_another_store_goes_on_here_only_by_force(shell) -> None:  # type: ignore[no-untyped-def]
    run = shell.runs["approval"]
    assert shell("copy", run, "--from", str(shell.store), "--to", "second.db").exit_code == 0
    before = shell("events", run, "-o", "json").stdout
    for verb in ("resume", "retry"):
        refused = shell(verb, run, "--no-wait")
        assert refused.exit_code == 2
        assert "second.db and continues there" in " ".join(refused.output.split())
        assert "--force" in refused.output
    assert shell("events", run, "-o", "json").stdout == before
    assert "outlast resume" not in shell("explain", run).stdout
    assert shell("resume", run, "--no-wait", "--force").exit_code == 0
    assert shell("resume", run, "--no-wait", "--store", "second.db").exit_code == 0, "there it continues"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--from", "runs.db", "--to", "there.db"), 2, "give either the runs to copy or --all"),
        (("--from", "runs.db", "--to", "there.db", "--all", "x"), 2, "give either the runs to copy or --all"),
        (("--from", "none.db", "--to", "there.db", "--all"), 3, "there is no store at"),
        (("--from", "runs.db", "--to", "./runs.db", "--all"), 2, "both addresses name the same store"),
        (("--from", "runs.db", "--to", "there.db", "nobody"), 2, "nobody"),
        (("--from", "runs.db", "--to", "postgresql://127.0.0.1:1/x", "--all"), 3, "could not reach"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(shell, arguments, code: int, said: str) -> None:  # type: ignore[no-untyped-def]
    before = shell("ps", "--all", "-o", "json").stdout
    done = shell("copy", *arguments)
    assert (done.exit_code, said in done.output) == (code, True), done.output
    assert not Path("none.db").exists()
    if "postgresql" not in str(arguments):
        assert shell("ps", "--all", "-o", "json").stdout == before


def test_a_run_that_cannot_be_copied_keeps_no_other_and_is_told(shell) -> None:  # type: ignore[no-untyped-def]
    run = shell.runs["completed"] if "completed" in shell.runs else next(iter(shell.runs.values()))
    shell.damage("update log set digest = zeroblob(16) where run = (select id from head where run = ?)", run)
    done = shell("copy", "--from", str(shell.store), "--to", "there.db", "--all")
    assert done.exit_code == 1
    assert f"{run}: not copied:" in done.output
    assert f"{len(shell.runs) - 1} runs copied, 1 not" in done.output


def test_a_copy_that_is_killed_again_and_again_completes_when_it_is_given_again(shell) -> None:  # type: ignore[no-untyped-def]
    """Killed with SIGKILL, a little later every time."""
    arguments = ["copy", "--from", str(shell.store), "--to", "there.db", "--all"]
    killed = 0
    for tenths in range(4, 40, 4):
        with subprocess.Popen([sys.executable, "-c", SLOW, *arguments], stderr=subprocess.PIPE) as process:
            try:
                process.wait(tenths / 10)
                break
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
    time.sleep(0.1)
    assert killed
    assert shell(*arguments).exit_code == 0
    assert shell("verify", "--store", "there.db", "--all").exit_code == 0
    assert shell("verify", "--store", str(shell.store), "--all").exit_code == 0
    there = shell("ps", "--store", "there.db", "--all", "-o", "ids").stdout.split()
    assert sorted(there) == sorted(shell.runs.values())
