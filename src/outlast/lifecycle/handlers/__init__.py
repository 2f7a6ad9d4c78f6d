"""The effect of each event on the state: one small function per event type, one module per group of events.

A handler checks first and changes afterwards, so that an illegal event raises `Illegal` and leaves the state unchanged (L2).
`fold.apply` checks the transition table before it calls a handler, which it finds in `HANDLERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.lifecycle.state import State, Wait

Kind = TypeVar("Kind", bound=e.Event)
Handler = Callable[[State, Any, int], None]

HANDLERS: dict[type[e.Event], Handler] = {}


def on(kind: type[Kind]) -> Callable[[Callable[[State, Kind, int], None]], Callable[[State, Kind, int], None]]:
    """Register the function as the handler of events of this type. It receives the state, the event and its seq."""

    def register(handler: Callable[[State, Kind, int], None]) -> Callable[[State, Kind, int], None]:
        HANDLERS[kind] = handler
        return handler

    return register


def open_wait(state: State, wait: Wait, seq: int) -> None:
    if state.waits.get(wait.name) is not None:
        raise Illegal("V7", f"the run already waits for {wait.kind} {wait.id}", seq=seq)
    state.waits[wait.name] = wait
