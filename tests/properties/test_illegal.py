"""Broken histories: each of V1 to V11 is broken in many ways, and `violations` says which and where.

A mutation takes a legal history, breaks one rule of it and says at which event that shows. Unless it is about V1, digests
are chained anew afterwards, as someone who can write to the store would do: the other rules must hold without them.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw, Struct
from msgspec.structs import replace

from outlast.history import events as e
from outlast.history.codec import encode
from outlast.history.ids import AppendId, RunId
from outlast.history.lineage import holder
from outlast.history.record import Kind, Record
from outlast.lifecycle import decide
from outlast.lifecycle.invariants import violations
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary, summarise
from outlast.lifecycle.transitions import may_follow
from support.histories import History, events, histories, rechained
from support.sampling import examples


class Broken(Struct):
    """What a mutation made of a history, and the event at which it shows."""

    records: list[Record]
    seq: int
    summary: RunSummary | None = None
    run: RunId = RunId("run")
    key: bytes = b""


Mutation = Callable[[History, st.DrawFn], Broken]
MUTATIONS: list[tuple[str, Mutation]] = []


def breaks(invariant: str) -> Callable[[Mutation], Mutation]:
    def register(mutation: Mutation) -> Mutation:
        MUTATIONS.append((invariant, mutation))
        return mutation

    return register


# --- the ways to break it ----------------------------------------------------------------------------------------------


def _is_cancelled(history: History) -> bool:
    """Whether all that may come of it is the end of its clean-up."""
    return history.state.outline.cleanup is not None


def awake(history: History) -> History:
    """The same history, brought to where its owner may work."""
    if not history.epoch:
        history.write([e.RunTakenOver(epoch=1)], Kind.TAKEOVER, epoch=1)
    while (base := history.state.outline.base) not in (RunStatus.RUNNING, RunStatus.COMPENSATING) or _is_cancelled(
        history
    ):
        is_new = base is RunStatus.CREATED
        is_over = history.state.is_closed or _is_cancelled(history)
        history.write(history.cut(0) if is_over else [e.RunStarted(resumed=not is_new)])
    return history


def told(history: History, *events: e.AnyEvent, kind: Kind = Kind.OWNER, epoch: int | None = None) -> Broken:
    """These events follow, whether they may or not; the first of them is the broken one."""
    record = history.sealed(events, kind, epoch=epoch)
    return Broken([*history.records, record], record.first)


def after(history: History, *events: e.AnyEvent) -> History:
    """The history, awake, and then these."""
    awake(history).write(events)
    return history


def forged(history: History, at: int, **changes: object) -> Broken:
    """The record at this place has other fields, and the chain was made anew."""
    records = list(history.records)
    records[at] = replace(records[at], **changes)
    return Broken(rechained(records, history.run), records[at].first)


def retold(history: History, at: int, events: Sequence[e.AnyEvent]) -> Broken:
    return forged(history, at, body=encode(events))


def some_record(history: History, draw: st.DrawFn, *, but_last: int = 0) -> int:
    while len(history.records) <= but_last:
        awake(history).write([e.VersionChanged(version="1")])
    return draw(st.integers(0, len(history.records) - 1 - but_last))


def failure(category: str = "permanent") -> e.Failure:
    return e.Failure("Error", "no", category=category)  # type: ignore[arg-type]


# --- V1: seq is gapless and the digests chain


@breaks("V1")
def a_record_is_missing(history: History, draw: st.DrawFn) -> Broken:
    at = some_record(history, draw, but_last=1)
    return Broken([*history.records[:at], *history.records[at + 1 :]], history.records[at + 1].first)


@breaks("V1")
def a_record_is_there_twice(history: History, draw: st.DrawFn) -> Broken:
    at = some_record(history, draw)
    return Broken([*history.records[: at + 1], *history.records[at:]], history.records[at].first)


@breaks("V1")
def two_records_are_swapped(history: History, draw: st.DrawFn) -> Broken:
    at = some_record(history, draw, but_last=1)
    one, other = history.records[at : at + 2]
    return Broken([*history.records[:at], other, one, *history.records[at + 2 :]], other.first)


@breaks("V1")
def a_record_is_renumbered(history: History, draw: st.DrawFn) -> Broken:
    at = some_record(history, draw)
    return forged(history, at, first=history.records[at].first + draw(st.sampled_from([-1, 1, 7])))


@breaks("V1")
def a_record_counts_more_events_than_it_holds(history: History, draw: st.DrawFn) -> Broken:
    at = some_record(history, draw)
    return forged(history, at, count=history.records[at].count + draw(st.integers(1, 3)))


@breaks("V1")
def a_record_lost_an_event(history: History, draw: st.DrawFn) -> Broken:
    at = some_record(history, draw)
    return retold(history, at, history.records[at].events()[:-1])


@breaks("V1")
def a_body_is_cut_short(history: History, draw: st.DrawFn) -> Broken:
    at = some_record(history, draw)
    body = history.records[at].body
    return forged(history, at, body=body[: draw(st.integers(0, len(body) - 1))])


@breaks("V1")
def an_event_has_an_unknown_type(history: History, draw: st.DrawFn) -> Broken:
    at = some_record(history, draw)
    told = history.records[at].body
    return forged(history, at, body=b'[{"type":"NotYet"},' + told[1:])


@breaks("V1")
def a_record_comes_from_another_run(history: History, draw: st.DrawFn) -> Broken:
    at = some_record(history, draw)
    return forged(history, at, run=RunId("other"))


@breaks("V1")
def the_whole_log_was_moved_to_another_run(history: History, draw: st.DrawFn) -> Broken:
    return Broken([replace(each, run=RunId("other")) for each in history.records], 1, run=RunId("other"))


@breaks("V1")
def the_log_was_written_without_the_key(history: History, draw: st.DrawFn) -> Broken:
    return Broken(history.records, 1, key=b"secret")


def flip(record: Record, field: str, bit: int) -> Record:
    """The record with one bit of a stored field turned over."""
    match getattr(record, field):
        case bytes() as old:
            new = bytearray(old)
            new[bit // 8 % len(old)] ^= 1 << bit % 8
            return replace(record, **{field: bytes(new)})
        case str() as name:
            return replace(record, run=RunId(name[:-1] + chr(ord(name[-1]) ^ 1 << bit % 7)))
        case number:
            return replace(record, **{field: int(number) ^ 1 << bit})


BITS = {"first": 12, "count": 12, "branch": 32, "epoch": 63, "kind": 8, "time": 62, "id": 128, "digest": 128, "run": 7}
"""Of each stored field. A record far off its place has tests of its own."""


def flipped(field: str) -> Mutation:
    def mutation(history: History, draw: st.DrawFn) -> Broken:
        at = some_record(history, draw)
        bits = BITS.get(field, len(history.records[at].body) * 8)
        records = list(history.records)
        records[at] = flip(records[at], field, draw(st.integers(0, bits - 1)))
        return Broken(records, records[at].first)

    mutation.__name__ = f"a_bit_of_the_{field}_is_flipped"
    return mutation


for name in Record.__struct_fields__:
    breaks("V1")(flipped(name))


# --- V2: RunCreated comes first, exactly once


@breaks("V2")
def the_log_is_empty(history: History, draw: st.DrawFn) -> Broken:
    return Broken([], 0)


@breaks("V2")
def the_run_was_never_created(history: History, draw: st.DrawFn) -> Broken:
    return retold(history, 0, [e.VersionChanged(version="1"), *history.records[0].events()[1:]])


@breaks("V2")
def the_run_is_created_again(history: History, draw: st.DrawFn) -> Broken:
    return told(history, e.RunCreated(workflow="again"), kind=draw(st.sampled_from([Kind.OWNER, Kind.GUEST])))


@breaks("V2")
def the_run_is_created_after_it_was_spoken_of(history: History, draw: st.DrawFn) -> Broken:
    events = history.records[0].events()
    return retold(history, 0, [e.SignalReceived(signal="early", name="early"), *events[:1], *events[2:]])


# --- V3: an outcome follows a start, a start follows a schedule, of the same attempt


@breaks("V3")
def the_schedule_of_a_start_is_missing(history: History, draw: st.DrawFn) -> Broken:
    after(history, e.NodeScheduled(node="z"))
    after(history, e.NodeStarted(node="z"))
    return Broken(retold(history, -2, [e.GraphExtended(by="z")]).records, history.seq)


@breaks("V3")
def a_node_starts_unscheduled(history: History, draw: st.DrawFn) -> Broken:
    return told(awake(history), e.NodeStarted(node="z"))


@breaks("V3")
def a_node_starts_another_attempt_than_the_scheduled(history: History, draw: st.DrawFn) -> Broken:
    wrong = draw(st.sampled_from([-1, 0, 2, 3]))
    return told(after(history, e.NodeScheduled(node="z")), e.NodeStarted(node="z", attempt=wrong))


@breaks("V3")
def a_node_starts_twice(history: History, draw: st.DrawFn) -> Broken:
    return told(after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z")), e.NodeStarted(node="z"))


@breaks("V3")
def a_node_completes_unstarted(history: History, draw: st.DrawFn) -> Broken:
    return told(after(history, e.NodeScheduled(node="z")), e.NodeCompleted(node="z"))


@breaks("V3")
def a_node_nobody_knows_completes(history: History, draw: st.DrawFn) -> Broken:
    return told(awake(history), e.NodeCompleted(node="z"))


@breaks("V3")
def a_node_completes_another_attempt_than_the_started(history: History, draw: st.DrawFn) -> Broken:
    started = after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z"))
    return told(started, e.NodeCompleted(node="z", attempt=draw(st.sampled_from([-1, 0, 2]))))


@breaks("V3")
def a_failed_node_adopts_a_completion(history: History, draw: st.DrawFn) -> Broken:
    after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z"), e.NodeFailed(node="z", error=failure()))
    return told(history, e.NodeCompleted(node="z", adopted=1))


@breaks("V3")
def a_node_checkpoints_unstarted(history: History, draw: st.DrawFn) -> Broken:
    return told(after(history, e.NodeScheduled(node="z")), e.NodeCheckpointed(node="z"))


@breaks("V3")
def a_node_fails_unstarted(history: History, draw: st.DrawFn) -> Broken:
    category = draw(st.sampled_from(["permanent", "transient", "timeout", "crash", "rejected"]))
    return told(after(history, e.NodeScheduled(node="z")), e.NodeFailed(node="z", error=failure(category)))


@breaks("V3")
def a_node_fails_twice(history: History, draw: st.DrawFn) -> Broken:
    failed = e.NodeFailed(node="z", error=failure())
    return told(after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z"), failed), failed)


@breaks("V3")
def a_node_is_skipped_when_it_has_started(history: History, draw: st.DrawFn) -> Broken:
    return told(after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z")), e.NodeSkipped(node="z"))


@breaks("V3")
def a_step_completes_unstarted(history: History, draw: st.DrawFn) -> Broken:
    return told(awake(history), e.StepCompleted(step="z"))


@breaks("V3")
def a_node_is_compensated_that_did_not_complete(history: History, draw: st.DrawFn) -> Broken:
    return told(after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z")), e.CompensationStarted(node="z"))


@breaks("V3")
def a_compensation_ends_that_did_not_start(history: History, draw: st.DrawFn) -> Broken:
    done = after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z"), e.NodeCompleted(node="z"))
    ends = [e.NodeCompensated(node="z"), e.CompensationFailed(node="z", error=failure())]
    return told(done, draw(st.sampled_from(ends)))


# --- V4: a node completes at most once


@breaks("V4")
def a_node_completes_twice(history: History, draw: st.DrawFn) -> Broken:
    done = after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z"), e.NodeCompleted(node="z"))
    return told(done, e.NodeCompleted(node="z", attempt=draw(st.sampled_from([1, 2]))))


@breaks("V4")
def a_node_that_completed_adopts_a_completion(history: History, draw: st.DrawFn) -> Broken:
    done = after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z"), e.NodeCompleted(node="z"))
    return told(done, e.NodeCompleted(node="z", adopted=history.seq))


@breaks("V4")
def a_completed_node_is_scheduled_again(history: History, draw: st.DrawFn) -> Broken:
    done = after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z"), e.NodeCompleted(node="z"))
    cause = draw(st.sampled_from(["first", "retry", "crash", "pause", "reset"]))
    return told(done, e.NodeScheduled(node="z", attempt=2, cause=cause))


@breaks("V4")
def a_skipped_node_is_scheduled(history: History, draw: st.DrawFn) -> Broken:
    return told(after(history, e.NodeSkipped(node="z")), e.NodeScheduled(node="z"))


# --- V5: an event follows only where the table allows it


@breaks("V5")
def anything_the_table_forbids_follows(history: History, draw: st.DrawFn) -> Broken:
    outline = history.state.outline
    forbidden = [each for each in e.EVENT_TYPES.values() if not may_follow(outline, each) and each is not e.RunCreated]
    if not forbidden:
        history.write([e.RunPaused()])
        forbidden = [e.NodeScheduled, e.RunCompleted, e.RunPaused]
    return told(history, draw(events(draw(st.sampled_from(forbidden)))))


@breaks("V5")
def work_goes_on_after_the_end(history: History, draw: st.DrawFn) -> Broken:
    endings = [e.RunCompleted(), e.RunCancelled(), e.RunFailed(error=failure()), e.RunContinued(successor="next")]
    awake(history).write(decide.end(history.state, draw(st.sampled_from(endings))))
    work = [e.NodeScheduled(node="z"), e.RunCompleted(), e.RunPaused(), e.StepStarted(step="z"), e.PauseRequested()]
    return told(history, draw(st.sampled_from(work)))


@breaks("V5")
def guests_bring_data_after_the_end(history: History, draw: st.DrawFn) -> Broken:
    awake(history).write(decide.end(history.state, e.RunCompleted()))
    data = [e.SignalReceived(signal="z", name="z"), e.InteractionAnswered(interaction="z"), e.TimerFired(timer="z")]
    return told(history, draw(st.sampled_from(data)), kind=Kind.GUEST)


@breaks("V5")
def a_failure_that_is_final_is_resumed(history: History, draw: st.DrawFn) -> Broken:
    awake(history).write(decide.end(history.state, e.RunFailed(error=failure())))
    return told(history, e.RunStarted(resumed=True))


@breaks("V5")
def a_run_ends_with_nodes_in_flight(history: History, draw: st.DrawFn) -> Broken:
    endings = [e.RunCompleted(), e.RunCancelled(), e.RunFailed(error=failure()), e.RunContinued(successor="next")]
    return told(after(history, e.NodeScheduled(node="z")), draw(st.sampled_from(endings)))


@breaks("V5")
def a_run_starts_again_without_having_stopped(history: History, draw: st.DrawFn) -> Broken:
    return told(awake(history), e.RunStarted(resumed=draw(st.booleans())))


@breaks("V5")
def a_paused_run_starts_as_if_it_were_new(history: History, draw: st.DrawFn) -> Broken:
    return told(after(history, e.RunPaused()), e.RunStarted())


@breaks("V5")
def a_new_run_starts_as_if_it_had_run(history: History, draw: st.DrawFn) -> Broken:
    awake(history)
    while (
        history.state.outline.base is not RunStatus.CREATED
    ):  # a request to pause that is open pauses the branch first
        history.write(history.cut(0))
    return told(history, e.RunStarted(resumed=True))


@breaks("V5")
def a_paused_run_works(history: History, draw: st.DrawFn) -> Broken:
    return told(after(history, e.RunPaused()), draw(st.sampled_from([e.NodeScheduled(node="z"), e.RunCompleted()])))


# --- V6: cursors never fall


@breaks("V6")
def a_cursor_is_lowered(history: History, draw: st.DrawFn) -> Broken:
    high, low = draw(st.sampled_from([(5, 4), (0, -1), ("b", "a"), ("a", "")]))
    after(history, e.TriggerRegistered(trigger="z"), e.TriggerCursorAdvanced(trigger="z", cursor=high))
    return told(history, e.TriggerCursorAdvanced(trigger="z", cursor=low))


@breaks("V6")
def an_input_comes_from_before_the_cursor(history: History, draw: st.DrawFn) -> Broken:
    after(history, e.TriggerRegistered(trigger="z"), e.TriggerInputReceived(trigger="z", input="1", cursor=5))
    return told(history, e.TriggerInputReceived(trigger="z", input="2", cursor=draw(st.integers(-9, 4))))


@breaks("V6")
def a_cursor_changes_its_kind(history: History, draw: st.DrawFn) -> Broken:
    old, new = draw(st.permutations([5, "9"]))
    after(history, e.TriggerRegistered(trigger="z"), e.TriggerCursorAdvanced(trigger="z", cursor=old))
    return told(history, e.TriggerCursorAdvanced(trigger="z", cursor=new))


# --- V7: an antecedent that is open, and each at most once

ASKED = e.InteractionRequested(interaction="z")
AGAIN: dict[str, tuple[tuple[e.AnyEvent, ...], e.AnyEvent]] = {
    "an_answer_comes_twice": ((ASKED, e.InteractionAnswered(interaction="z")), e.InteractionAnswered(interaction="z")),
    "an_answer_comes_to_what_was_not_asked": ((), e.InteractionAnswered(interaction="z")),
    "an_answer_comes_to_what_was_withdrawn": (
        (ASKED, e.InteractionWithdrawn(interaction="z")),
        e.InteractionAnswered(interaction="z"),
    ),
    "a_question_is_withdrawn_that_was_answered": (
        (ASKED, e.InteractionAnswered(interaction="z", answer=Raw(b"1"))),
        e.InteractionWithdrawn(interaction="z"),
    ),
    "a_question_is_withdrawn_that_was_not_asked": ((), e.InteractionWithdrawn(interaction="z")),
    "a_question_is_asked_twice": ((ASKED,), ASKED),
    "a_timer_fires_that_is_not_set": ((), e.TimerFired(timer="z")),
    "a_timer_fires_twice": ((e.TimerSet(timer="z", due=1), e.TimerFired(timer="z")), e.TimerFired(timer="z")),
    "a_timer_fires_that_was_cancelled": (
        (e.TimerSet(timer="z", due=1), e.TimerCancelled(timer="z")),
        e.TimerFired(timer="z"),
    ),
    "a_timer_is_cancelled_that_is_not_set": ((), e.TimerCancelled(timer="z")),
    "a_timer_is_set_twice": ((e.TimerSet(timer="z", due=1),), e.TimerSet(timer="z", due=2)),
    "a_signal_is_consumed_that_did_not_come": ((), e.SignalConsumed(signal="z")),
    "a_signal_is_consumed_twice": (
        (e.SignalReceived(signal="z", name="z"), e.SignalConsumed(signal="z")),
        e.SignalConsumed(signal="z"),
    ),
    "a_signal_that_was_consumed_comes_again_and_is_consumed": (
        (e.SignalReceived(signal="z", name="z"), e.SignalConsumed(signal="z"), e.SignalReceived(signal="z", name="z")),
        e.SignalConsumed(signal="z"),
    ),
    "a_wait_begins_twice": ((e.SignalAwaited(wait="z", name="z"),), e.SignalAwaited(wait="z", name="y")),
    "a_decision_is_made_twice": ((e.DecisionRecorded(key="z"),), e.DecisionRecorded(key="z", value=Raw(b"1"))),
    "a_trigger_is_registered_twice": ((e.TriggerRegistered(trigger="z"),), e.TriggerRegistered(trigger="z")),
    "an_input_comes_from_an_unknown_trigger": ((), e.TriggerInputReceived(trigger="z", input="1")),
    "a_cursor_moves_of_an_unknown_trigger": ((), e.TriggerCursorAdvanced(trigger="z", cursor=1)),
    "a_message_is_enqueued_twice": ((e.OutboxEnqueued(message="z"),), e.OutboxEnqueued(message="z")),
    "a_receipt_comes_for_no_message": ((), e.OutboxSent(message="z")),
    "a_receipt_comes_twice": (
        (e.OutboxEnqueued(message="z"), e.OutboxSent(message="z")),
        e.OutboxSent(message="z"),
    ),
    "a_child_is_started_twice": ((e.ChildStarted(child="z"),), e.ChildStarted(child="z", detached=True)),
    "a_child_ends_that_was_not_started": ((), e.ChildEnded(child="z")),
    "a_child_ends_twice": ((e.ChildStarted(child="z"), e.ChildEnded(child="z")), e.ChildEnded(child="z")),
}


def out_of_turn(name: str) -> Mutation:
    def mutation(history: History, draw: st.DrawFn) -> Broken:
        before, event = AGAIN[name]
        return told(after(history, *before) if before else awake(history), event)

    mutation.__name__ = name
    return mutation


for name in AGAIN:
    breaks("V7")(out_of_turn(name))


@breaks("V7")
def a_receipt_comes_again_on_another_branch(history: History, draw: st.DrawFn) -> Broken:
    pair: tuple[e.AnyEvent, e.AnyEvent] = draw(
        st.sampled_from(
            [
                (e.OutboxEnqueued(message="z"), e.OutboxSent(message="z")),
                (e.ChildStarted(child="z"), e.ChildEnded(child="z")),
            ]
        )
    )
    after(history, *pair)
    history.write(history.cut(0))
    return told(history, pair[1])


@breaks("V7")
def a_receipt_adopts_one_that_never_came(history: History, draw: st.DrawFn) -> Broken:
    owed, adopted = draw(
        st.sampled_from(
            [
                (e.OutboxEnqueued(message="z"), e.OutboxSent(message="z", adopted=1)),
                (e.ChildStarted(child="z"), e.ChildEnded(child="z", adopted=1)),
            ]
        )
    )
    nowhere = draw(st.sampled_from([1, 1000]))
    return told(after(history, owed), replace(adopted, adopted=nowhere))


# --- V8: branches are numbered as they open, hold their cutoff, and only the newest is written to


def branched(history: History, draw: st.DrawFn) -> e.BranchOpened:
    """A branch that could open now; there are at least three before it, so that there is something to confuse."""
    for _ in range(2):
        awake(history).write(history.cut(history.seq))
    cutoff = draw(st.integers(0, history.seq))
    opened, *_ = history.cut(cutoff)
    assert isinstance(opened, e.BranchOpened)
    return opened


def branch_violations(history: History, event: e.BranchOpened) -> Broken:
    record = replace(history.sealed([event]), branch=event.branch)
    return Broken(rechained([*history.records, record], history.run), record.first)


@breaks("V8")
def a_branch_names_another_parent(history: History, draw: st.DrawFn) -> Broken:
    event = branched(history, draw)
    others = [each for each in history.branches if each != event.parent]
    return branch_violations(history, replace(event, parent=draw(st.sampled_from(others))))


@breaks("V8")
def a_branch_says_its_parent_opened_elsewhere(history: History, draw: st.DrawFn) -> Broken:
    event = branched(history, draw)
    return branch_violations(
        history, replace(event, parent_first=event.parent_first + draw(st.sampled_from([-1, 1, 5])))
    )


@breaks("V8")
def a_branch_says_the_one_before_opened_elsewhere(history: History, draw: st.DrawFn) -> Broken:
    event = branched(history, draw)
    return branch_violations(
        history, replace(event, previous_first=event.previous_first + draw(st.sampled_from([-1, 1])))
    )


@breaks("V8")
def a_branch_is_cut_after_it_opens(history: History, draw: st.DrawFn) -> Broken:
    event = branched(history, draw)
    return branch_violations(history, replace(event, cutoff=history.seq + draw(st.integers(1, 3))))


@breaks("V8")
def a_branch_is_cut_before_there_was_a_log(history: History, draw: st.DrawFn) -> Broken:
    event = branched(history, draw)
    return branch_violations(history, replace(event, cutoff=draw(st.integers(-3, -1))))


@breaks("V8")
def a_branch_is_cut_where_its_parent_does_not_reach(history: History, draw: st.DrawFn) -> Broken:
    event = branched(history, draw)
    elsewhere = [seq for seq in range(history.seq) if holder(history.branches.values(), seq).id != event.parent]
    return branch_violations(history, replace(event, cutoff=draw(st.sampled_from(elsewhere))))


@breaks("V8")
def a_branch_skips_a_number(history: History, draw: st.DrawFn) -> Broken:
    event = branched(history, draw)
    return branch_violations(history, replace(event, branch=event.branch + draw(st.integers(1, 3))))


@breaks("V8")
def a_branch_takes_a_number_that_is_taken(history: History, draw: st.DrawFn) -> Broken:
    branched(history, draw)
    event, *_ = history.cut(0)
    assert isinstance(event, e.BranchOpened)
    return branch_violations(history, replace(event, branch=draw(st.integers(1, event.branch - 1))))


@breaks("V8")
def a_branch_opens_in_the_middle_of_an_append(history: History, draw: st.DrawFn) -> Broken:
    opened, *_ = awake(history).cut(history.seq)
    assert isinstance(opened, e.BranchOpened)
    late = replace(opened, cutoff=history.seq + 1)
    record = replace(history.sealed([e.VersionChanged(version="1"), late]), branch=opened.branch)
    return Broken(rechained([*history.records, record], history.run), record.last)


@breaks("V8")
def a_dead_branch_is_written_to(history: History, draw: st.DrawFn) -> Broken:
    branched(history, draw)
    history.write([e.VersionChanged(version="1")])
    return forged(history, -1, branch=draw(st.integers(0, history.branch - 1)))


@breaks("V8")
def a_branch_that_never_opened_is_written_to(history: History, draw: st.DrawFn) -> Broken:
    return forged(history, -1, branch=history.branch + draw(st.integers(1, 3)))


# --- V9: attempts count up by one


@breaks("V9")
def the_first_attempt_is_not_one(history: History, draw: st.DrawFn) -> Broken:
    return told(awake(history), e.NodeScheduled(node="z", attempt=draw(st.sampled_from([-1, 0, 2, 3]))))


@breaks("V9")
def an_attempt_is_skipped_or_repeated(history: History, draw: st.DrawFn) -> Broken:
    before, cause = draw(st.sampled_from(DONE_AGAIN))
    wrong = draw(st.sampled_from([0, 1, 3, 4]))
    return told(after(history, *before), e.NodeScheduled(node="z", attempt=wrong, cause=cause))


@breaks("V9")
def a_node_is_done_again_for_a_cause_that_is_not_its_case(history: History, draw: st.DrawFn) -> Broken:
    before, cause = draw(st.sampled_from(DONE_AGAIN))
    fitting = ("crash", "pause", "reset") if cause in ("crash", "pause") else (cause,)
    other = draw(
        st.sampled_from([each for each in ("first", "retry", "crash", "pause", "reset") if each not in fitting])
    )
    return told(after(history, *before), e.NodeScheduled(node="z", attempt=2, cause=other))


STARTED = (e.NodeScheduled(node="z"), e.NodeStarted(node="z"))
DONE_AGAIN = [
    (STARTED, "crash"),
    (STARTED, "pause"),
    ((*STARTED, e.NodeFailed(node="z", error=failure("transient"), retry_at=5)), "retry"),
    ((*STARTED, e.NodeFailed(node="z", error=failure())), "reset"),
]


# --- V10: a summary equals the fold at its version


EDITS: dict[str, Callable[[RunSummary], object]] = {
    "run": lambda _: RunId("other"),
    "status": lambda told: next(each for each in RunStatus if each is not told.status),
    "workflow": lambda told: told.workflow + "x",
    "branch": lambda told: told.branch + 1,
    "version": lambda told: told.version + "x",
    "kind": lambda told: told.kind + "x",
    "created": lambda told: told.created + 1,
    "updated": lambda told: told.updated - 1,
    "parent": lambda told: told.parent + "x",
    "title": lambda told: told.title + "x",
    "tags": lambda told: (*told.tags, "x"),
    "reason": lambda told: told.reason + "x",
    "recoverable": lambda told: not told.recoverable,
    "held": lambda told: not told.held,
    "done_nodes": lambda told: told.done_nodes + 1,
    "waiting": lambda told: told.waiting + 1,
    "waits": lambda told: (*told.waits, Wait("timer", "z")),
}


def edited(field: str) -> Mutation:
    def mutation(history: History, draw: st.DrawFn) -> Broken:
        summary = summarise(history.run, history.state)
        return Broken(history.records, history.seq, replace(summary, **{field: EDITS[field](summary)}))

    mutation.__name__ = f"the_{field}_of_the_summary_is_edited"
    return mutation


for name in EDITS:
    breaks("V10")(edited(name))


@breaks("V10")
def the_summary_is_ahead_of_a_log_that_lost_its_tail(history: History, draw: st.DrawFn) -> Broken:
    some_record(history, draw, but_last=1)
    summary = summarise(history.run, history.state)
    return Broken(history.records[: draw(st.integers(1, len(history.records) - 1))], summary.at, summary)


@breaks("V10")
def the_summary_says_it_is_older_than_it_is(history: History, draw: st.DrawFn) -> Broken:
    after(history, e.NodeScheduled(node="z"), e.NodeStarted(node="z"), e.NodeCompleted(node="z"))
    summary = summarise(history.run, history.state)
    return Broken(history.records, summary.at - 1, replace(summary, at=summary.at - 1))


@breaks("V10")
def the_summary_says_it_is_of_no_event(history: History, draw: st.DrawFn) -> Broken:
    at = draw(st.integers(-2, 0))
    return Broken(history.records, at, replace(summarise(history.run, history.state), at=at))


@breaks("V10")
def the_waits_of_the_summary_are_in_another_order(history: History, draw: st.DrawFn) -> Broken:
    after(history, e.TimerSet(timer="y", due=1), e.TimerSet(timer="z", due=1))
    summary = summarise(history.run, history.state)
    return Broken(history.records, summary.at, replace(summary, waits=summary.waits[::-1]))


# --- V11: epochs never fall, and a new one begins with RunTakenOver


def taken_over(history: History) -> History:
    epoch = awake(history).epoch + 2
    history.write([e.RunTakenOver(epoch=epoch)], Kind.TAKEOVER, epoch=epoch)
    return history


@breaks("V11")
def an_epoch_falls(history: History, draw: st.DrawFn) -> Broken:
    lower = draw(st.integers(0, taken_over(history).epoch - 1))
    return told(history, e.VersionChanged(version="1"), epoch=lower)


@breaks("V11")
def an_epoch_begins_without_a_takeover(history: History, draw: st.DrawFn) -> Broken:
    higher = awake(history).epoch + draw(st.integers(1, 3))
    kind = draw(st.sampled_from([Kind.OWNER, Kind.TAKEOVER]))
    return told(history, e.VersionChanged(version="1"), kind=kind, epoch=higher)


@breaks("V11")
def a_takeover_names_another_epoch(history: History, draw: st.DrawFn) -> Broken:
    epoch = awake(history).epoch + 1
    return told(history, e.RunTakenOver(epoch=epoch + draw(st.sampled_from([-1, 1]))), kind=Kind.TAKEOVER, epoch=epoch)


@breaks("V11")
def a_takeover_is_written_as_an_owners_append(history: History, draw: st.DrawFn) -> Broken:
    epoch = awake(history).epoch + 1
    return told(history, e.RunTakenOver(epoch=epoch), epoch=epoch)


@breaks("V11")
def a_takeover_is_not_the_first_of_its_append(history: History, draw: st.DrawFn) -> Broken:
    epoch = awake(history).epoch + 1
    return told(history, e.VersionChanged(version="1"), e.RunTakenOver(epoch=epoch), kind=Kind.TAKEOVER, epoch=epoch)


@breaks("V11")
def a_guest_says_what_is_the_owners_to_say(history: History, draw: st.DrawFn) -> Broken:
    owners = [e.NodeScheduled(node="z"), e.RunPaused(), e.RunFailed(error=failure(), held=True), e.PauseRequested()]
    return told(awake(history), draw(st.sampled_from(owners)), kind=Kind.GUEST)


@breaks("V11")
def a_guest_writes_under_an_epoch(history: History, draw: st.DrawFn) -> Broken:
    awake(history).write([e.SignalReceived(signal="z", name="z")], Kind.GUEST)
    return forged(history, -1, epoch=draw(st.integers(1, history.epoch + 1)))


@breaks("V11")
def a_request_carries_data(history: History, draw: st.DrawFn) -> Broken:
    return told(awake(history), e.SignalReceived(signal="z", name="z"), kind=Kind.CONTROL)


# --- V12: a request is obeyed, or refused by name


@breaks("V12")
def a_request_that_nobody_made_is_refused(history: History, draw: st.DrawFn) -> Broken:
    awake(history)
    request = draw(st.integers(1, history.seq + 1).filter(lambda seq: not is_open(history, seq)))
    return told(history, e.RequestRefused(request=request, code="ended"))


@breaks("V12")
def a_request_is_refused_twice(history: History, draw: st.DrawFn) -> Broken:
    after(history, e.PauseRequested())
    refusal = e.RequestRefused(request=history.seq, code="still")
    return told(after(history, refusal), refusal)


@breaks("V12")
def a_run_ends_while_a_request_is_open(history: History, draw: st.DrawFn) -> Broken:
    requests = [e.PauseRequested(), e.JumpRequested(target=1, branch=9), e.CancelRequested()]
    after(history, draw(st.sampled_from(requests)))
    request = history.seq
    events = decide.end(history.state, e.RunCompleted())
    left_out = [event for event in events if not (isinstance(event, e.RequestRefused) and event.request == request)]
    record = history.sealed(left_out)
    return Broken([*history.records, record], record.last)


@breaks("V12")
def a_branch_opens_without_a_word_about_a_request(history: History, draw: st.DrawFn) -> Broken:
    after(history, draw(st.sampled_from([e.PauseRequested(), e.JumpRequested(target=1, branch=9)])))
    return told(history, history.cut(draw(st.integers(0, history.seq)))[0])


def is_open(history: History, seq: int) -> bool:
    return any(each.seq == seq for each in history.state.outline.requests)


# --- and that each is found --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("invariant", "mutation"),
    [pytest.param(number, each, id=f"{number}-{each.__name__.replace('_', '-')}") for number, each in MUTATIONS],
)
@settings(max_examples=12)
@given(history=histories(8), data=st.data())
def test_a_broken_invariant_is_reported_by_its_number_and_place(
    invariant: str, mutation: Mutation, history: History, data: st.DataObject
) -> None:
    broken = mutation(history, data.draw)
    found = violations(broken.run, broken.records, broken.summary, key=broken.key)
    assert (invariant, broken.seq) in {(each.invariant, each.seq) for each in found}


def test_every_invariant_is_broken_in_at_least_two_ways() -> None:
    ways = Counter(invariant for invariant, _ in MUTATIONS)
    assert set(ways) == {f"V{number}" for number in range(1, 13)}
    assert min(ways.values()) >= 2


@settings(max_examples=examples(50))
@given(history=histories(8))
def test_a_history_before_it_is_broken_has_no_violations(history: History) -> None:
    """Also with its summary, chained anew, and brought to where mutations begin: so what they find is theirs."""
    awake(history)
    records = rechained(history.records, history.run)
    assert records == history.records
    assert violations(history.run, records, summarise(history.run, history.state)) == []


@settings(max_examples=examples(40))
@given(history=histories(8), data=st.data())
def test_a_mutation_that_only_breaks_the_story_leaves_the_chain_alone(history: History, data: st.DataObject) -> None:
    story = [mutation for invariant, mutation in MUTATIONS if invariant in ("V3", "V4", "V6", "V7", "V9")]
    broken = data.draw(st.sampled_from(story))(history, data.draw)
    assert "V1" not in {each.invariant for each in violations(broken.run, broken.records)}


# --- damage that must not take the checker down -------------------------------------------------------------------------


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails instead of hanging."""

    def too_late(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    old = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def short(kind: Kind = Kind.OWNER) -> History:
    history = History()
    history.write([e.RunCreated(workflow="w"), e.RunStarted()], epoch=1)
    history.write([e.SignalReceived(signal="g", name="n")], kind)
    return history


@pytest.mark.parametrize("bit", [30, 40, 62])
def test_a_record_numbered_far_too_high_is_reported_at_once(bit: int) -> None:
    history = short()
    records = [history.records[0], flip(history.records[1], "first", bit)]
    with within(1):
        found = violations(history.run, records)
    assert ("V1", 3 + (1 << bit)) in {(each.invariant, each.seq) for each in found}


def test_a_branch_that_opens_far_too_high_is_reported_at_once() -> None:
    history = short()
    history.write(history.cut(2))
    records = [*history.records[:-1], flip(history.records[-1], "first", 40)]
    with within(1):
        found = violations(history.run, records)
    assert "V1" in {each.invariant for each in found}


def test_a_guests_record_that_counts_far_too_many_events_is_reported_at_once() -> None:
    history = short(Kind.GUEST)
    with within(1):
        found = violations(history.run, [history.records[0], flip(history.records[1], "count", 31)])
    assert ("V1", 3) in {(each.invariant, each.seq) for each in found}


@pytest.mark.parametrize("parent", [1, 2, 99, -1], ids=["itself", "a later one", "no branch at all", "a negative one"])
def test_a_branch_whose_parent_cannot_be_is_reported_and_not_followed(parent: int) -> None:
    history = short()
    opened, *_ = history.cut(2)
    assert isinstance(opened, e.BranchOpened)
    broken = branch_violations(history, replace(opened, parent=parent))
    with within(1):
        found = violations(broken.run, broken.records)
    assert ("V8", broken.seq) in {(each.invariant, each.seq) for each in found}


@pytest.mark.parametrize(
    "changes",
    [{"count": -1}, {"count": 1 << 33}, {"time": 1 << 70}, {"epoch": -1}, {"first": -3}, {"kind": 300}, {"branch": -1}],
    ids=lambda changes: ", ".join(f"{name} {number}" for name, number in changes.items()),
)
def test_a_number_that_no_record_can_have_is_reported_as_damage(changes: dict[str, int]) -> None:
    history = short()
    record = replace(history.records[1], **changes)
    with within(1):
        found = violations(history.run, [history.records[0], record])
    assert ("V1", record.first) in {(each.invariant, each.seq) for each in found}


@pytest.mark.parametrize("id", [b"", b"x" * 15, b"\0" * 15 + b"\x03" + b"!", b"\0" * 17], ids=repr)
def test_an_append_id_of_another_length_breaks_the_chain(id: bytes) -> None:
    """H3: a digest covers every stored field."""
    history = short()
    record = replace(history.records[1], id=AppendId(id))
    assert ("V1", 3) in {(each.invariant, each.seq) for each in violations(history.run, [history.records[0], record])}
