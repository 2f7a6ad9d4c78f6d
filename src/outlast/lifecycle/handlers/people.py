"""Handlers of the events of questions, signals, timers and decisions."""

from __future__ import annotations

from outlast.errors import Illegal
from outlast.history import events as e
from outlast.lifecycle.handlers import on, open_wait
from outlast.lifecycle.state import Interaction, Signal, State, Wait


@on(e.InteractionRequested)
def _interaction_requested(state: State, event: e.InteractionRequested, seq: int) -> None:
    if state.interactions.get(event.interaction) is not None:
        raise Illegal("V7", f"interaction {event.interaction} was already asked", seq=seq)
    wait = Wait(
        "interaction",
        event.interaction,
        event.node,
        event.due,
        event.prompt,
        event.hash,
        event.schema,
        since=state.outline.time,
    )
    state.interactions[event.interaction] = Interaction(event.node, event.key, event.hash, seq)
    state.waits[wait.name] = wait


@on(e.InteractionAnswered)
def _interaction_answered(state: State, event: e.InteractionAnswered, seq: int) -> None:
    asked = _pending(state, event.interaction, "answered", seq)
    state.interactions[event.interaction] = Interaction(
        asked.node, asked.key, asked.hash, seq, event.answer, by=event.by
    )
    state.waits.pop(f"interaction:{event.interaction}", None)


@on(e.InteractionWithdrawn)
def _interaction_withdrawn(state: State, event: e.InteractionWithdrawn, seq: int) -> None:
    asked = _pending(state, event.interaction, "withdrawn", seq)
    state.interactions[event.interaction] = Interaction(asked.node, asked.key, asked.hash, seq, None, True)
    state.waits.pop(f"interaction:{event.interaction}", None)


def _pending(state: State, name: str, verb: str, seq: int) -> Interaction:
    asked = state.interactions.get(name)
    if asked is None:
        raise Illegal("V7", f"interaction {name} is {verb} but was not asked on this lineage", seq=seq)
    if asked.answer is not None or asked.withdrawn:
        raise Illegal("V7", f"interaction {name} is {verb} but was already answered or withdrawn", seq=seq)
    return asked


@on(e.SignalAwaited)
def _signal_awaited(state: State, event: e.SignalAwaited, seq: int) -> None:
    open_wait(state, Wait("signal", event.wait, text=event.name, since=state.outline.time), seq)


@on(e.SignalReceived)
def _signal_received(state: State, event: e.SignalReceived, seq: int) -> None:
    if state.signals.get(event.signal) is None:  # the same signal delivered again is still one signal
        state.signals[event.signal] = Signal(event.name, event.data, seq)


@on(e.SignalConsumed)
def _signal_consumed(state: State, event: e.SignalConsumed, seq: int) -> None:
    signal = state.signals.get(event.signal)
    if signal is None or signal.consumed:
        raise Illegal("V7", f"signal {event.signal} is consumed but was not received, or was already consumed", seq=seq)
    state.signals[event.signal] = Signal(signal.name, e.NULL, seq, True)
    state.waits.pop(f"signal:{event.wait}", None)


@on(e.TimerSet)
def _timer_set(state: State, event: e.TimerSet, seq: int) -> None:
    open_wait(state, Wait("timer", event.timer, event.node, event.due, since=state.outline.time), seq)


@on(e.TimerFired)
def _timer_fired(state: State, event: e.TimerFired, seq: int) -> None:
    _stop_timer(state, event.timer, "fires", seq)


@on(e.TimerCancelled)
def _timer_cancelled(state: State, event: e.TimerCancelled, seq: int) -> None:
    _stop_timer(state, event.timer, "is cancelled", seq)


def _stop_timer(state: State, timer: str, verb: str, seq: int) -> None:
    if state.waits.get(f"timer:{timer}") is None:
        raise Illegal("V7", f"timer {timer} {verb} but is not set", seq=seq)
    state.waits.pop(f"timer:{timer}", None)


@on(e.DecisionRecorded)
def _decision_recorded(state: State, event: e.DecisionRecorded, seq: int) -> None:
    if state.decisions.get(event.key) is not None:
        raise Illegal("V7", f"decision {event.key} was already made", seq=seq)
    state.decisions[event.key] = event.value
