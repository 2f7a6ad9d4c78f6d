"""`outlast bulk` and `outlast audit`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from outlast.compose import open_settled
from outlast.http.audit import Audit, AuditEntry
from outlast.settings import read_settings


def test_a_dry_run_counts_and_changes_nothing(shell: Any) -> None:
    answer = shell("bulk", "start", "cancel", "--status", "waiting", "--dry-run")
    assert answer.exit_code == 0, answer.stderr
    assert "match" in answer.stdout
    assert shell("ps", "--status", "cancelled", "-o", "ids").stdout == ""


def test_without_a_terminal_it_is_confirmed_by_a_flag(shell: Any) -> None:
    answer = shell("bulk", "start", "cancel", "--status", "waiting")
    assert answer.exit_code == 2
    assert "--yes" in answer.stderr


def test_all_that_match_are_cancelled_and_each_has_its_result(shell: Any) -> None:
    before = shell("ps", "--status", "waiting", "-o", "ids").stdout.split()
    assert before
    answer = shell("bulk", "start", "cancel", "--status", "waiting", "--reason", "recall", "--yes", "-o", "json")
    assert answer.exit_code == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert {each["run"] for each in found["outcomes"]} == set(before)
    assert found["done"] + found["skipped"] + found["failed"] == found["confirmed"] == len(before)
    shown = shell("bulk", "show", found["run"])
    assert f"cancel {len(before)} runs" in shown.stdout
    again = shell("bulk", "retry", found["run"])
    assert (again.exit_code, "has no failures" in again.stderr) == (2, True)


def test_what_nothing_matches_is_refused(shell: Any) -> None:
    answer = shell("bulk", "start", "cancel", "--workflow", "unknown", "--yes")
    assert (answer.exit_code, "no run matches" in answer.stderr) == (2, True)


def test_an_answer_belongs_to_the_action_answer(shell: Any) -> None:
    assert shell("bulk", "start", "answer", "--yes").exit_code == 2
    assert shell("bulk", "start", "cancel", "--json", "1", "--yes").exit_code == 2


def test_what_the_server_recorded_is_listed(shell: Any) -> None:
    async def record() -> None:
        store = open_settled(read_settings({"store": str(shell.store)}))
        entry = AuditEntry(
            time=1_793_600_000_000_000,
            by="ines (token 12)",
            role="operator",
            address="10.0.0.7",
            action="cancel_run",
            status=200,
            subject="order-1",
        )
        await Audit(store).record(entry, is_known=True)
        await store.close()

    assert "no request matches" in shell("audit").stderr
    asyncio.run(record())
    text = shell("audit", "--who", "INES").stdout
    assert all(each in text for each in ("ines (token 12)", "10.0.0.7", "cancel_run", "order-1", "200"))
    assert json.loads(shell("audit", "-o", "json").stdout)["entries"][0]["address"] == "10.0.0.7"
    assert "no request matches" in shell("audit", "--action", "pause_run").stderr
