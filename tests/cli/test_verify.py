"""`outlast verify` finds what was done to a file behind Outlast's back: with run and place, and exit code 1 (P12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest

OF = "run = (select id from head where run = ?)"


def violations(answer: Any) -> set[tuple[str, str, int]]:
    """Run, invariant and seq of everything that was found."""
    return {
        (run["run"], found["invariant"], found["seq"])
        for run in json.loads(answer.stdout)["runs"]
        for found in run["violations"]
    }


def test_a_sound_run_is_one_line(shell: Any) -> None:
    answer = shell("verify", shell.runs["report"])
    assert answer.exit_code == 0
    (line,) = answer.stdout.splitlines()
    assert line.startswith(f"ok   {shell.runs['report']}  11 events, 6 appends, 2 branches, digest ")
    assert len(line.split()[-1]) == 32
    assert answer.stderr == ""


def test_all_runs_are_verified_and_counted(shell: Any) -> None:
    answer = shell("verify", "--all")
    assert answer.exit_code == 0
    assert sorted(line.split()[1] for line in answer.stdout.splitlines()) == sorted(shell.runs.values())
    assert "6 runs verified, none with violations" in answer.stderr


def test_lines_fit_a_narrow_screen(shell: Any) -> None:
    answer = shell("verify", "--all", COLUMNS="80")
    assert max(map(len, answer.stdout.splitlines())) <= 80


def test_json_tells_programs_the_same(shell: Any) -> None:
    document = json.loads(shell("verify", shell.runs["report"], "-o", "json").stdout)
    (run,) = document["runs"]
    assert set(run) == {"run", "sound", "events", "appends", "branches", "status", "digest", "violations"}
    assert (document["checked"], document["unsound"], run["sound"], run["status"]) == (1, 0, True, "completed")


@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_a_flipped_byte_in_a_stored_body_is_found_at_its_record(mask: int, shell: Any) -> None:
    run = shell.runs["digest"]
    connection = apsw.Connection(str(shell.store))
    body = bytearray(connection.execute(f"select body from log where first = 5 and {OF}", (run,)).get)
    connection.close()
    body[len(body) // 2] ^= mask
    shell.damage(f"update log set body = ? where first = 5 and {OF}", bytes(body), run)

    answer = shell("verify", "--all")
    assert answer.exit_code == 1
    (bad,) = [line for line in answer.stdout.splitlines() if line.startswith("BAD")]
    assert run in bad
    assert "V1 at event 5: the digest does not match the stored bytes" in answer.stdout
    assert "1 with violations" in answer.stderr
    assert (run, "V1", 5) in violations(shell("verify", run, "-o", "json"))
    assert shell("verify", "--all", "-o", "ids").stdout == f"{run}\n"


def test_a_body_edited_in_sql_is_found_though_it_became_text(shell: Any) -> None:
    run = shell.runs["digest"]
    shell.damage(f"update log set body = replace(body, 'fetch', 'fetsh') where first = 5 and {OF}", run)
    answer = shell("verify", run, "-o", "json")
    assert answer.exit_code == 1
    assert (run, "V1", 5) in violations(answer)
    assert json.loads(answer.stdout)["runs"][0]["events"] == 11


def test_a_deleted_record_is_found_where_the_log_goes_on(shell: Any) -> None:
    run = shell.runs["digest"]
    shell.damage(f"delete from log where first = 5 and {OF}", run)
    answer = shell("verify", run, "-o", "json")
    assert answer.exit_code == 1
    assert (run, "V1", 6) in violations(answer)


def test_a_deleted_tail_is_found_by_what_head_and_summary_remember(shell: Any) -> None:
    run = shell.runs["digest"]
    shell.damage(f"delete from log where first = 11 and {OF}", run)
    answer = shell("verify", run, "-o", "json")
    assert answer.exit_code == 1
    assert {(run, "V1", 11), (run, "V10", 12)} <= violations(answer)


def test_an_edited_summary_is_found(shell: Any) -> None:
    run = shell.runs["import"]
    shell.damage("update catalogue set body = replace(body, '\"failed\"', '\"completed\"') where run = ?", run)
    answer = shell("verify", run)
    assert answer.exit_code == 1
    assert "V10 at event 6: the summary has status" in answer.stdout


def test_a_summary_that_does_not_read_is_found(shell: Any) -> None:
    run = shell.runs["import"]
    shell.damage("update catalogue set body = x'7b22ff' where run = ?", run)
    answer = shell("verify", run)
    assert answer.exit_code == 1
    assert "the summary cannot be decoded" in answer.stdout
    everything = shell("verify", "--all")
    assert everything.exit_code == 1
    assert "the summary cannot be decoded" in everything.stdout
    assert "1 with violations" in everything.stderr


def test_a_head_that_was_edited_or_lost_is_found(shell: Any) -> None:
    shell.damage("update head set digest = zeroblob(16) where run = ?", shell.runs["digest"])
    shell.damage("update head set epoch = 9 where run = ?", shell.runs["import"])
    shell.damage("update head set branch = 0 where run = ?", shell.runs["report"])
    shell.damage("delete from head where run = ?", shell.runs["approval"])
    answer = shell("verify", "--all", "-o", "json")
    assert answer.exit_code == 1
    assert violations(answer) == {
        (shell.runs["digest"], "V1", 12),
        (shell.runs["import"], "V11", 6),
        (shell.runs["report"], "V8", 11),
        (shell.runs["approval"], "V1", 0),
    }


def test_the_events_before_the_damage_are_shown_and_the_rest_is_refused(shell: Any) -> None:
    run = shell.runs["digest"]
    shell.damage(f"update log set body = x'5bff' where first = 5 and {OF}", run)
    answer = shell("events", run)
    assert answer.exit_code == 1
    assert [line.split()[0] for line in answer.stdout.splitlines()] == ["1", "2", "3", "4"]
    assert f"run {run}, event 5" in answer.stderr
    assert f"outlast verify {run}" in answer.stderr
    assert shell("events", run, "--after", "5").exit_code == 0


def test_many_violations_are_cut_on_the_screen_and_whole_in_json(shell: Any, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k")
    shell.damage("update head set epoch = 9 where run = ?", shell.runs["digest"])
    answer = shell("verify", shell.runs["digest"], "--key-file", str(key))
    assert answer.exit_code == 1
    assert "written with another key? (--key-file)" in answer.stdout


def test_a_log_with_a_key_is_proved_by_that_key(shell: Any, fill: Any, all_runs: Any, tmp_path: Path) -> None:
    sealed = tmp_path / "sealed.db"
    run = fill(sealed, all_runs, b"secret")["report"]
    key = tmp_path / "key"
    key.write_bytes(b"secret")
    assert shell("verify", run, "--store", str(sealed), "--key-file", str(key)).exit_code == 0
    assert shell("verify", run, "--store", str(sealed)).exit_code == 1


@pytest.mark.parametrize("content", [b"", b"x" * 65])
def test_a_key_file_that_holds_no_key_is_refused(content: bytes, shell: Any, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(content)
    answer = shell("verify", "--all", "--key-file", str(key))
    assert answer.exit_code == 2
    assert "1 to 64 bytes" in answer.stderr
