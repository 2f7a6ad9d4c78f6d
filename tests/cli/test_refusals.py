"""A user's mistake gets one or two clear lines and the documented exit code, never a traceback (P11, C1)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast.cli.entrypoint import EXIT_CODES
from outlast.client import Engine

HOSTILE = ["\x1b[2J", "[red]", "%s%n", "'; drop table log; --", "x" * 5000, "​", "../../etc/passwd", "$(id)"]


def refused(answer: Any, code: int, *told: str) -> None:
    """The code, what must be said, and that nothing else is: no traceback, no raw control character."""
    assert answer.exit_code == code, (answer.output, answer.exception)
    assert isinstance(answer.exception, SystemExit)
    assert "Traceback" not in answer.output
    assert "\x1b" not in answer.output
    for text in told:
        assert text in answer.stderr


def test_an_unknown_run(shell: Any) -> None:
    for command in ("events", "verify", "show", "logs", "answer", "resume", "retry", "cancel"):
        refused(shell(command, "nobody"), 2, "there is no run nobody", "outlast ps")
    refused(shell("ps", "--parent", "nobody"), 2, "there is no run nobody")


def test_an_ambiguous_beginning(shell: Any) -> None:
    for command in ("events", "verify"):
        answer = shell(command, "01a19")
        refused(answer, 2, "more than one run begins with 01a19", shell.runs["digest"])


def test_a_bad_status(shell: Any) -> None:
    refused(shell("ps", "--status", "asleep"), 2, "'asleep' is not a status", "waiting")


@pytest.mark.parametrize(
    "when", ["soon", "2h ago", "-2h", "2026-13-01", "2026-11-01T25:00", "²h", "0001-01-01", "9" * 30]
)
def test_a_bad_time(when: str, shell: Any) -> None:
    answer = shell("ps", f"--since={when}")
    if when == "0001-01-01":
        assert answer.exit_code in (0, 2)
    else:
        refused(answer, 2, "is not a time", "2026-11-01")


def test_times_in_the_wrong_order(shell: Any) -> None:
    refused(shell("ps", "--since", "1h", "--until", "2h"), 2, "--since 1h is not before --until 2h")


@pytest.mark.parametrize("limit", ["0", "-1", "many", "1.5"])
def test_a_bad_limit(limit: str, shell: Any) -> None:
    refused(shell("ps", f"--limit={limit}"), 2, "--limit")


def test_a_limit_beyond_all_bounds_shows_everything(shell: Any) -> None:
    answer = shell("ps", "--limit", "9" * 30)
    assert answer.exit_code == 0
    assert len(answer.stdout.splitlines()) == 7


@pytest.mark.parametrize(
    "option", ["--status", "--workflow", "--tag", "--parent", "--text", "--since", "--until", "--after"]
)
def test_an_empty_filter_is_not_taken_for_none(option: str, shell: Any) -> None:
    refused(shell("ps", option, ""), 2, f"{option} is empty")


def test_a_list_of_no_status_is_not_taken_for_all_of_them(shell: Any) -> None:
    refused(shell("ps", "--status", ","), 2, "--status ',' has no status")


def test_a_fork_with_an_empty_id_is_refused(shell: Any) -> None:
    refused(shell("fork", shell.runs["report"], "--id", ""), 2, "--id is empty")


@pytest.mark.parametrize("place", ["5", "start"])
def test_an_edit_where_no_node_is_named_is_refused(place: str, shell: Any) -> None:
    refused(
        shell("jump", shell.runs["report"], "--to", place, "--edit", "x=1", "--no-wait"),
        2,
        "is no node: give a node to --to",
    )


def test_yes_and_no_are_not_one_answer(shell: Any) -> None:
    refused(shell("answer", shell.runs["report"], "--yes", "--no"), 2, "give one answer")


def test_a_tail_beyond_all_bounds_is_all_lines(shell: Any) -> None:
    assert shell("logs", shell.runs["report"], "--tail", "9" * 30).exit_code == 0


@pytest.mark.parametrize("seconds", ["inf", "1e308"])
def test_a_sweep_may_wait_for_ever_before_a_claim_counts(seconds: str, shell: Any) -> None:
    assert shell("sweeper", "--once", "--dry-run", "--stale-after", seconds).exit_code == 0


@pytest.mark.parametrize("cursor", ["x", ":", "1", "²:x", "9" * 40 + ":x"])
def test_a_bad_cursor(cursor: str, shell: Any) -> None:
    refused(shell("ps", "--after", cursor), 2)


def test_a_bad_branch_or_place(shell: Any) -> None:
    run = shell.runs["report"]
    refused(shell("events", run, "--branch", "2"), 2, "has no branch 2; its newest is 1")
    refused(shell("events", run, "--branch", "-1"), 2)
    refused(shell("events", run, "--after", "-1"), 2)
    refused(shell("events", run, "--branch", "0", "--everything"), 2, "give either a branch or everything")
    assert shell("events", run, "--after", "9" * 30).exit_code == 0


def test_verify_wants_runs_or_all_and_not_both(shell: Any) -> None:
    refused(shell("verify"), 2, "--all")
    refused(shell("verify", "--all", shell.runs["report"]), 2, "--all")


def test_verify_begins_only_if_all_runs_are_there(shell: Any) -> None:
    answer = shell("verify", shell.runs["report"], "nobody")
    refused(answer, 2)
    assert answer.stdout == ""


def test_unknown_options_commands_and_outputs(shell: Any) -> None:
    refused(shell("ps", "--frobnicate"), 2)
    refused(shell("frobnicate"), 2)
    refused(shell("ps", "-o", "xml"), 2)
    refused(shell("events"), 2)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings_anywhere(text: str, shell: Any) -> None:
    for command in ("events", "verify", "show", "logs", "answer", "resume", "retry", "cancel"):
        refused(shell(command, "--", text), 2)
    refused(shell("run", "--", text), 2)
    refused(shell("run", "--", f"{text}:x", text), 2)
    refused(shell("ps", f"--status={text}"), 2)
    refused(shell("ps", f"--since={text}"), 2)
    refused(shell("ps", f"--parent={text}"), 2)
    for option in ("--workflow", "--tag", "--text"):
        answer = shell("ps", f"{option}={text}")
        assert answer.exit_code in (0, 2), answer.output
        assert "Traceback" not in answer.output
        assert answer.stdout == ""
    refused(shell("ps", f"--store={text}"), 3)
    refused(shell("verify", "--all", f"--key-file={text}"), 2)


@pytest.mark.parametrize("command", [("ps",), ("events", "x"), ("verify", "x"), ("verify", "--all")])
def test_a_missing_store_says_where_it_looked_and_how_to_choose_another(command: tuple[str, ...], shell: Any) -> None:
    refused(
        shell(*command, "--store", "nowhere/runs.db"),
        3,
        f"there is no store at {shell.folder / 'nowhere' / 'runs.db'}",
        "--store",
        "OUTLAST_STORE",
    )


def test_what_is_no_database(shell: Any) -> None:
    text = shell.folder / "notes.txt"
    text.write_text("This is not a database, but it is long enough to be looked at as one. " * 20)
    refused(shell("ps", "--store", str(text)), 3, "not an SQLite file", "--store")
    assert text.read_text().startswith("This is not")


def test_a_database_that_is_not_ours(shell: Any) -> None:
    other = shell.folder / "other.db"
    connection = apsw.Connection(str(other))
    connection.execute("create table t (x)")
    connection.close()
    refused(shell("ps", "--store", str(other)), 3, "not one of Outlast's")


def test_an_empty_file(shell: Any) -> None:
    (shell.folder / "empty.db").touch()
    refused(shell("ps", "--store", "empty.db"), 3, "is an empty file, and no store yet")
    assert (shell.folder / "empty.db").stat().st_size == 0


def test_a_folder(shell: Any) -> None:
    refused(shell("ps", "--store", str(shell.folder)), 3, "is a folder", "runs.db")


def test_a_damaged_database_file(shell: Any) -> None:
    content = bytearray(shell.store.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    shell.store.write_bytes(bytes(content))
    for command in (("ps",), ("verify", "--all"), ("events", "x")):
        refused(shell(*command), 3)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgresql://me:secret@there/db?schema=Not-One", "invalid schema 'Not-One'"),
        ("postgresql://me:secret@there/db?pgbouncer=perhaps", "write pgbouncer=1"),
        ("postgresql://me:secret@there:port/db", "invalid address of a PostgreSQL store"),
        ("postgresql:db", "postgresql://user@host"),
        ("s3://bucket/a b", "invalid bucket address"),
        ("s3://me:secret@bucket/runs", "environment"),
        ("ftp://me:secret@there/x", "unknown kind of store 'ftp'"),
        ("sqlite:runs.db", "sqlite:///runs.db"),
        ("sqlite:///runs.db?mode=rw", "sqlite:///runs.db"),
        ("sqlite:///", "empty"),
        ("memory:x", "memory:"),
        ("", "empty"),
    ],
)
def test_addresses_of_stores_that_there_are_not(address: str, told: str, shell: Any) -> None:
    answer = shell("ps", "--store", address)
    refused(answer, 2, told)
    assert "secret" not in answer.output


def test_reading_commands_create_nothing(shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    monkeypatch.delenv("OUTLAST_STORE")
    for command in (("ps",), ("events", "x"), ("verify", "x"), ("verify", "--all")):
        refused(shell(*command), 3, str(empty / ".outlast" / "runs.db"))
    assert list(empty.iterdir()) == []


def test_the_store_may_be_named_before_or_after_the_command(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_STORE")
    assert shell("--store", "runs.db", "ps").exit_code == 0
    assert shell("ps", "--store", "sqlite:///runs.db").exit_code == 0
    assert shell("--store", "nowhere.db", "ps", "--store", f"sqlite:///{shell.store}").exit_code == 0


def test_ctrl_c_ends_a_command_with_130(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(self: Engine, run: str, **_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "verify", interrupted)
    refused(shell("verify", "--all"), 130)


def test_the_exit_codes_are_in_the_help(shell: Any) -> None:
    told = " ".join(shell("--help").stdout.split())
    for code, meaning in EXIT_CODES.items():
        assert f" {code} {meaning}" in told


@pytest.mark.parametrize(
    "command", ["run", "ps", "show", "events", "logs", "answer", "resume", "retry", "cancel", "verify"]
)
def test_every_command_has_help_with_an_example(command: str, shell: Any) -> None:
    answer = shell(command, "--help", COLUMNS="100")
    assert answer.exit_code == 0
    assert f"\n  outlast {command} " in answer.stdout


@pytest.mark.parametrize("command", ["cancel", "pause", "resume"])
def test_a_store_that_may_only_be_read(command: str, shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files belong to somebody else, as a service's do, or lie on a disk that is mounted for reading."""
    opened = os.open

    def guarded(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_CREAT and str(path).endswith(".lock"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", guarded)
    named = shell.runs["payout" if command == "resume" else "approval"]
    refused(shell(command, named, *(["--no-wait"] if command == "resume" else [])), 3, "may only be read")
