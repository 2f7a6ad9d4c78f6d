"""The list of all texts for users is current."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "messages.py"


def test_the_list_of_messages_is_current() -> None:
    """`make messages` writes it."""
    module = runpy.run_path(str(SCRIPT))
    assert module["FILE"].read_text(encoding="utf-8") == module["messages"]()


def test_the_list_holds_errors_help_and_log_lines() -> None:
    listed = (SCRIPT.parent / "reference" / "messages.txt").read_text(encoding="utf-8")
    assert "\n  error give one answer: a VALUE, --json, --yes or --no\n" in listed
    assert "\n  help  Output format.\n" in listed
    assert "\n  help  List runs, the newest first.\n" in listed
    assert "\n  log   worker %s executes %s\n" in listed
