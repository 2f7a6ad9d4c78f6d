"""The rows stored beside the log compared with the log: the head's flag, the waits, the summary (G2); and the runs that
this one depends on (G1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from outlast.history import events as e
from outlast.lifecycle.diagnosis.evidence import Evidence, Finding, HandOver, Remedy, Rewrite, Settle, and_more
from outlast.lifecycle.state import State, Wait
from outlast.lifecycle.status import RunStatus

_FROM_CREATED = ("workflow", "kind", "created", "parent", "title", "tags")
"""Summary fields that come from RunCreated: they are never stale."""


def differences(state: State, *, is_closed: bool, waits: Mapping[str, Wait]) -> list[str]:
    """The differences between the head's flag and the stored waits, and the state."""
    found: list[str] = []
    if is_closed is not state.is_closed:
        flag = "over" if is_closed else "not over"
        found.append(f"the head marks the run as {flag}, which contradicts the log")
    true = dict([*state.waits.items(), *state.loose.items()])
    found += [f"the wait {name!r} is not stored" for name in true.keys() - waits.keys()]
    found += [f"the wait {name!r} is stored but not in the log" for name in waits.keys() - true.keys()]
    found += [
        f"the stored wait {name!r} differs from the log"
        for name in true.keys() & waits.keys()
        if waits[name] != true[name]
    ]
    return sorted(found)


def rewrite(evidence: Evidence) -> Rewrite:
    """The remedy that writes the rows beside the log again, with a description of its effect."""
    stored, true = evidence.summary, evidence.true
    if stored is None:
        changes = [f"write the summary as of event {true.at}"]
    else:
        changes = [
            f"write summary.{name}: {_json(getattr(stored, name))} becomes {_json(getattr(true, name))}"
            for name in true.__struct_fields__
            if name != "waits" and getattr(stored, name) != getattr(true, name)
        ]
        changes += ["write summary.waits"] if stored.waits != true.waits else []
    return Rewrite((*changes, *(f"correct: {difference}" for difference in _beside(evidence))))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _beside(evidence: Evidence) -> list[str]:
    """The rows beside the log, except the summary, that cannot be read or differ from the log."""
    return [*evidence.faults, *differences(evidence.state, is_closed=evidence.is_closed, waits=evidence.waits)]


def to_rewrite(evidence: Evidence, sentence: str, events: tuple[int, ...], cause: str) -> Finding:
    """G2: rows beside the log that `doctor --fix` writes again from the log."""
    return Finding(
        code="G2",
        standing="repairable",
        sentence=sentence,
        events=events,
        cause=cause,
        actions=("outlast doctor --fix writes it from the log",),
        remedy=rewrite(evidence),
    )


def wrong_derived_rows(evidence: Evidence) -> Iterator[Finding]:
    stored, true = evidence.summary, evidence.true
    found = _beside(evidence)
    found += [
        f"the summary has {name} {getattr(stored, name)!r}, the log {getattr(true, name)!r}"
        for name in _FROM_CREATED
        if stored is not None and getattr(stored, name) != getattr(true, name)
    ]
    if found:
        yield to_rewrite(
            evidence,
            f"the rows stored beside the log differ from it: {found[0]}{and_more(len(found) - 1)}",
            (evidence.version,),
            "the rows were edited, damaged, or written by another program; the log is authoritative",
        )


def related(evidence: Evidence) -> Iterator[Finding]:
    """A child or a successor that does not exist, a child whose end was not delivered, or one that was not cancelled."""
    if evidence.is_held:
        return
    for each in evidence.related_runs:
        remedy: Remedy | None
        if each.relation == "left":
            sentence = f"the run jumped back to before its child {each.run} started, but the child is not cancelled"
            cause = "the process of the run ended, or the store failed, before it cancelled the child"
            remedy, action = Settle(evidence.run), "outlast doctor --fix cancels the child"
        elif each.has_ended:
            sentence = f"the run waits for its child {each.run}, which has ended"
            cause = "the worker died between the end of the child and its delivery to the parent"
            remedy, action = Settle(each.run), "outlast doctor --fix delivers the end of the child"
        elif each.relation == "successor":
            sentence = f"the run continues as run {each.run}, which does not exist"
            cause = "the worker died between the end of the run and the creation of its successor"
            remedy, action = (
                Settle(evidence.run),
                "outlast doctor --fix creates the successor, and the next worker runs it",
            )
        else:
            sentence = f"the run waits for its child {each.run}, which does not exist"
            cause = "the process of the run ended before it created the child, or the child was removed"
            remedy, action = (
                HandOver(),
                "outlast doctor --fix leaves the run to the next worker, which creates the child",
            )
            if evidence.is_ready:
                remedy, action = None, "the next worker that has the workflow of the run creates the child"
            if evidence.state.outline.held or evidence.state.status is RunStatus.PAUSED:
                remedy, action = None, f"outlast resume {evidence.run} continues the run, which creates the child"
        yield Finding(
            code="G1",
            standing="repairable" if remedy is not None else "consistent",
            sentence=sentence,
            events=_events_naming(evidence, each.run),
            cause=cause,
            actions=(action,),
            remedy=remedy,
        )


def _events_naming(evidence: Evidence, run: str) -> tuple[int, ...]:
    return tuple(
        each.seq
        for each in evidence.log
        if run in (getattr(each.event, "child", ""), getattr(each.event, "successor", ""))
        or (isinstance(each.event, e.BranchOpened) and run in each.event.cancelled)
    )
