"""The log of a command as lines of JSON: each says which run, node and attempt it is about."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from outlast.cli.engine_log import JsonLines
from outlast.history.ids import RunId
from outlast.values.context import capture


def told(text: str, *arguments: Any) -> Any:
    record = logging.LogRecord("outlast.engine", logging.WARNING, "file", 1, text, arguments, None)
    fields = json.loads(JsonLines().format(record))
    assert fields["message"] == text % arguments
    return {name: fields.get(name) for name in ("run", "node", "attempt")}


@pytest.mark.parametrize(
    ("text", "arguments", "run", "node"),
    [
        ("run %s waits for its store, next try in %.2g s: %s", ("a", 0.5, "no"), "a", None),
        ("Question %s of run %s restored", ("q", "a"), "a", None),
        ("run %s: the result of node %s cannot be reused: %s", ("a", "n", "no"), "a", "n"),
        ("Run %s held: %s", ("a", "100%"), "a", None),
        ("swept %d runs", (3,), None, None),
        ("nothing", (), None, None),
    ],
)
def test_a_message_of_the_engine_names_its_run(
    text: str, arguments: tuple[Any, ...], run: str | None, node: str | None
) -> None:
    assert told(text, *arguments) == {"run": run, "node": node, "attempt": None}


def test_a_message_of_a_node_names_its_attempt() -> None:
    class Sink:
        @staticmethod
        def clock() -> int:
            return 0

        def add(self, line: Any) -> None:
            pass

    with capture(Sink(), RunId("a"), "n", 2):
        assert told("run %s is another one", "b") == {"run": "a", "node": "n", "attempt": 2}
