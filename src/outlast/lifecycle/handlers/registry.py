"""Handlers by event type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from outlast.history import events as e
from outlast.lifecycle.state import State

Kind = TypeVar("Kind", bound=e.Event)
Handler = Callable[[State, Any, int], None]

HANDLERS: dict[type[e.Event], Handler] = {}


def on(kind: type[Kind]) -> Callable[[Callable[[State, Kind, int], None]], Callable[[State, Kind, int], None]]:
    """Register the function as the handler of events of this type. It receives the state, the event and its seq."""

    def register(handler: Callable[[State, Kind, int], None]) -> Callable[[State, Kind, int], None]:
        HANDLERS[kind] = handler
        return handler

    return register
