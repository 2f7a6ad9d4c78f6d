"""Requests to a run: which are open, and which events close them.

A request (`CancelRequested`, `PauseRequested`, `JumpRequested`) is open until an event obeys it or refuses it by name.
Nothing else closes one (V12). `decide.next_request` returns the open request that the owner obeys next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from outlast.history import events as e

Request: TypeAlias = e.CancelRequested | e.PauseRequested | e.JumpRequested


class OpenRequest(Struct, frozen=True, gc=False):
    """A request and the seq of its event."""

    seq: int
    event: Request


Requests: TypeAlias = tuple[OpenRequest, ...]


def left_open(requests: Requests, event: e.AnyEvent) -> Requests:
    """The requests that are still open after an event.

    `RunCancelled` obeys every cancellation, and `RunContinued` passes it on to the successor. A run that is paused or held
    has obeyed every pause. A branch obeys the jump that it names."""
    if not requests:
        return requests
    closed: type[e.Event] | int
    match event:
        case e.RequestRefused(request=seq) | e.BranchOpened(request=seq):
            closed = seq
        case e.RunCancelled() | e.RunContinued():
            closed = e.CancelRequested
        case e.RunPaused() | e.RunFailed(held=True):
            closed = e.PauseRequested
        case _:
            return requests
    return tuple(each for each in requests if each.seq != closed and type(each.event) is not closed)


def newest(requests: Requests, kind: type[e.Event]) -> OpenRequest | None:
    """The newest open request of a kind."""
    return next((each for each in reversed(requests) if isinstance(each.event, kind)), None)


def request_violations(requests: Requests, events: Iterable[e.AnyEvent], first: int) -> list[str]:
    """Violations of V12 by the events that open a branch at `first`: they must obey or refuse each of the requests, and no
    others."""
    known = {each.seq for each in requests}
    wrong: list[str] = []
    for seq, event in enumerate(events, first):
        if isinstance(event, e.RequestRefused | e.BranchOpened) and event.request and event.request not in known:
            wrong.append(f"event {event.request} is not an open request")
        elif isinstance(event, Request):
            known.add(seq)
        requests = left_open(requests, event)
    names = [f"{type(each.event).__name__} at event {each.seq}" for each in requests]
    return [*wrong, *(f"{name} is neither obeyed nor refused by the append that opens a branch" for name in names)]
