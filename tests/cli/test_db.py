"""`outlast db`: how the store stands, its version, a copy of it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast.stores.shared import VERSION
from support import commands


def test_info_tells_how_the_store_stands(shell: Any) -> None:
    answer = shell("db", "info")
    assert answer.exit_code == 0
    told = {line.split()[0]: line for line in answer.stdout.splitlines()}
    assert tuple(told) == ("path", "size", "schema", "sqlite", "runs", "deleted", "blobs", "workers")
    assert told["path"].endswith(str(shell.store))
    assert told["schema"].split() == ["schema", str(VERSION)]
    assert f"{len(shell.runs)}: " in told["runs"]
    assert "2 failed" in told["runs"]
    assert str(shell.folder / "runs.db.blobs") in told["blobs"]


def test_programs_read_info_as_json(shell: Any) -> None:
    told = json.loads(shell("db", "info", "-o", "json").stdout)
    assert (told["path"], told["schema"]) == (str(shell.store), VERSION)
    assert told["bytes"] == shell.store.stat().st_size
    assert sum(told["runs"].values()) == len(shell.runs)
    assert told["blobs"] == {"path": str(shell.folder / "runs.db.blobs"), "count": 0, "bytes": 0}
    assert (told["kind"], set(told["workers"])) == ("sqlite", {"live", "gone"})


def test_a_copy_can_be_proved_by_itself(shell: Any) -> None:
    answer = shell("db", "backup", "copies/monday.db")
    assert answer.exit_code == 0, answer.output
    assert f"{shell.folder / 'copies' / 'monday.db'}: {len(shell.runs)} runs" in answer.stdout
    proved = shell("verify", "--all", "--store", "copies/monday.db")
    assert (proved.exit_code, len(proved.stdout.splitlines())) == (0, len(shell.runs))


def test_programs_read_what_was_copied_as_json(shell: Any) -> None:
    told = json.loads(shell("db", "backup", "sqlite:///copy.db", "-o", "json").stdout)
    assert told == {
        "path": str(shell.folder / "copy.db"),
        "bytes": (shell.folder / "copy.db").stat().st_size,
        "runs": len(shell.runs),
        "blobs": {"path": str(shell.folder / "copy.db.blobs"), "count": 0, "bytes": 0},
        "damaged": [],
        "missing": [],
    }


def test_a_damaged_blob_in_the_copy_is_a_finding(shell: Any) -> None:
    blob = shell.folder / "runs.db.blobs" / "ab" / ("0" * 62)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"not what the name says")
    answer = shell("db", "backup", "copy.db")
    assert answer.exit_code == 1
    assert f"blob ab{'0' * 62} is damaged in the store; the backup has the damaged copy" in answer.stderr
    assert "1 blob, 22 bytes" in answer.stdout


@pytest.mark.parametrize("taken", ["copy.db", "copy.db.blobs", "folder"])
def test_a_copy_replaces_nothing(taken: str, shell: Any) -> None:
    (shell.folder / "folder").mkdir()
    (shell.folder / taken).mkdir(exist_ok=True)
    answer = shell("db", "backup", "folder" if taken == "folder" else "copy.db")
    assert answer.exit_code == 2
    assert f"{shell.folder / taken} already exists" in answer.stderr
    assert "Traceback" not in answer.output


def test_a_store_is_not_copied_onto_itself(shell: Any) -> None:
    before = shell.store.read_bytes()
    assert shell("db", "backup", "runs.db").exit_code == 2
    assert shell.store.read_bytes() == before


@pytest.mark.parametrize("command", [("info",), ("backup", "copy.db")])
def test_a_missing_store_is_not_made(command: tuple[str, ...], shell: Any) -> None:
    """C3"""
    before = sorted(shell.folder.rglob("*"))
    answer = shell("db", *command, "--store", "nowhere/runs.db")
    assert answer.exit_code == 3
    assert f"there is no store at {shell.folder / 'nowhere' / 'runs.db'}" in answer.stderr
    assert sorted(shell.folder.rglob("*")) == before


@pytest.mark.parametrize("command", [("info",), ("backup", "copy.db")])
@pytest.mark.parametrize(
    ("store", "code", "told"),
    [("memory:", 2, "in memory"), ("notes.txt", 3, "not an SQLite file"), ("other.db", 3, "not one of Outlast's")],
)
def test_what_is_no_store_of_ours_is_refused_and_left_as_it_is(
    command: tuple[str, ...], store: str, code: int, told: str, shell: Any
) -> None:
    import apsw

    (shell.folder / "notes.txt").write_text("This is not a database. " * 200)
    connection = apsw.Connection(str(shell.folder / "other.db"))
    connection.execute("create table t (x)")
    connection.close()
    answer = shell("db", *command, "--store", store)
    assert answer.exit_code == code, answer.output
    assert told in answer.stderr
    assert not (shell.folder / "copy.db").exists()
    assert (shell.folder / "notes.txt").read_text().startswith("This is not")


@pytest.mark.parametrize("target", ["", "memory:", "s3://bucket/x", "x\0y", "y" * 5000, "notes.txt/copy.db"])
def test_places_where_there_can_be_no_copy(target: str, shell: Any) -> None:
    (shell.folder / "notes.txt").touch()
    answer = shell("db", "backup", "--", target)
    assert answer.exit_code in (2, 3), answer.output
    assert isinstance(answer.exception, SystemExit)
    assert "Traceback" not in answer.output


def test_a_person_at_a_terminal_sees_how_far_it_is(shell: Any) -> None:
    primary, secondary = pty.openpty()
    command = [sys.executable, "-m", "outlast", "db", "backup", "copy.db"]
    ran = commands.run(command, cwd=shell.folder, stdout=subprocess.PIPE, stderr=secondary, timeout=30)
    os.close(secondary)
    shown = os.read(primary, 10_000).decode()
    os.close(primary)
    assert ran.returncode == 0
    assert "copying the database: 100 %" in shown
    assert Path(shell.folder / "copy.db").exists()


@pytest.mark.parametrize("command", ["info", "backup"])
def test_every_command_has_help_with_an_example(command: str, shell: Any) -> None:
    answer = shell("db", command, "--help", COLUMNS="100")
    assert answer.exit_code == 0
    assert f"\n  outlast db {command}" in answer.stdout


@pytest.mark.parametrize("command", [("db", "info"), ("ps",), ("worker", "--app", "flows.py"), ("doctor",)])
def test_a_store_without_one_of_its_tables_is_refused_by_every_command(shell: Any, command: tuple[str, ...]) -> None:
    (shell.folder / "flows.py").write_text("import outlast as ol\n\n\n@ol.workflow\nasync def w() -> None: ...\n")
    connection = apsw.Connection(str(shell.store))
    connection.execute("drop table wait")
    connection.close()
    answer = shell(*command)
    assert (answer.exit_code, "runs.db lacks wait" in answer.stderr) == (3, True), answer.stderr
