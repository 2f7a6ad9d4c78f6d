"""Adapts the events of an append after guests appended first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.state import State


def without_closed(events: list[e.AnyEvent], state: State) -> list[e.AnyEvent]:
    """The events without those that end waits which guests have already ended."""
    begun = {name for event in events if (name := _wait_of(event, _BEGINS))}
    return [
        event
        for event in events
        if not (name := _wait_of(event, _ENDS)) or name in begun or state.waits.get(name) is not None
    ]


def redecide(events: list[e.AnyEvent], state: State) -> list[e.AnyEvent]:
    """The events to append after guests appended first: waits that guests ended are not ended again, and a terminal
    event refuses open requests."""
    remaining = [event for event in without_closed(events, state) if not isinstance(event, e.RequestRefused)]
    return [*remaining[:-1], *decide.refusals(state, remaining[-1]), remaining[-1]] if remaining else []


_BEGINS: Mapping[Any, str] = {e.TimerSet: "timer", e.InteractionRequested: "interaction"}
_ENDS: Mapping[Any, str] = {e.TimerCancelled: "timer", e.InteractionWithdrawn: "interaction"}


def _wait_of(event: e.AnyEvent, kinds: Mapping[Any, str]) -> str:
    """The wait that an event of one of these kinds begins or ends; empty for other events."""
    kind = kinds.get(type(event), "")
    return kind and f"{kind}:{getattr(event, kind)}"
