"""The timeline of a run has a one-line text for every event that is written, and stays short for a long log."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec import Raw

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.lineage import lineage
from outlast.history.record import entries
from outlast.lifecycle import decide
from outlast.lifecycle.diagnosis import Holder
from outlast.lifecycle.explanation import Explanation, explain
from outlast.lifecycle.timeline import MAX_ENTRIES, TEXTS, TimelineBuilder, TimelineEntry, text_of
from outlast.lifecycle.timeline.phrases import base, duration, label, listed, user_frame
from outlast.lifecycle.timeline.texts import GROUPS, key_of
from support.histories import History

SECOND = 1_000_000
ERROR = e.Failure("builtins:ConnectionError", "no route", category="transient")


class Log:
    """A log that is written second by second."""

    def __init__(self, **created: object) -> None:
        self.history = History("r")
        self.began = self.history.time
        self.add(e.RunCreated(workflow="w", **created), e.RunStarted(), seconds=0)  # type: ignore[arg-type]

    def add(self, *events: e.AnyEvent, seconds: float = 1) -> Log:
        time = self.history.time + int(seconds * SECOND)
        self.history.write(events, epoch=self.history.epoch or 1, time=time)
        return self

    def take_over(self, cause: str = "dead") -> Log:
        epoch = self.history.epoch + 1
        events = decide.take_over(self.history.state, epoch, "w2", cause=cause)  # type: ignore[arg-type]
        self.history.write(events, epoch=epoch, time=self.history.time + SECOND)
        return self

    def branch(self, cutoff: int, **why: str) -> Log:
        return self.add(*self.history.cut(cutoff, **why))

    def explained(
        self, *, full: bool = False, branch: int | None = None, limit: int = MAX_ENTRIES, **how: Any
    ) -> Explanation:
        history = self.history
        branch = history.branch if branch is None else branch
        end = history.told[branch][-1].seq
        log = TimelineBuilder(lineage(history.branches, branch, end))
        for record in history.records:
            for entry in entries(record):
                if entry.seq <= end:
                    log.add(entry)
        now = history.time + SECOND
        return explain(RunId("r"), log, now, newest=history.branch, full=full, limit=limit, **how)

    def entries(self, **how: Any) -> tuple[TimelineEntry, ...]:
        return self.explained(**how).timeline.entries

    def texts(self, **how: Any) -> list[str]:
        return [entry.text for entry in self.entries(**how)]


def began(node: str, attempt: int = 1, **scheduled: object) -> list[e.AnyEvent]:
    return [
        e.NodeScheduled(node=node, attempt=attempt, **scheduled),  # type: ignore[arg-type]
        e.NodeStarted(node=node, attempt=attempt),
    ]


def done(node: str, attempt: int = 1, output: bytes = b"null", ms: float = 0.0) -> e.NodeCompleted:
    return e.NodeCompleted(node=node, attempt=attempt, output=Raw(output), ms=ms)


UNWRITTEN: set[type[e.Event]] = {
    e.NodeSkipped,
    e.CompensationStarted,
    e.NodeCompensated,
    e.CompensationFailed,
    e.GraphExtended,
    e.SignalAwaited,
    e.SignalReceived,
    e.SignalConsumed,
    e.TriggerRegistered,
    e.TriggerInputReceived,
    e.TriggerCursorAdvanced,
    e.OutboxEnqueued,
    e.OutboxSent,
}
"""The format knows them, and nothing writes them yet."""


def test_every_type_of_event_that_is_written_has_a_text_and_no_other() -> None:
    assert {key.partition(".")[0] for key in TEXTS} == {
        kind.__name__ for kind in set(e.EVENT_TYPES.values()) - UNWRITTEN
    }
    assert set(GROUPS) <= set(TEXTS)


@pytest.mark.parametrize("key", TEXTS)
def test_every_text_renders_with_all_fields_and_with_none(key: str) -> None:
    hostile = "\x1b[31m[bold]{n}%s\r\n\u202e"
    kind = e.EVENT_TYPES[key.partition(".")[0]]
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name != "more"}
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    for names in (set(hints), required):
        event: Any = kind(**{name: _sample(hints[name], hostile) for name in names})
        assert text_of(event, 0).isprintable()
        assert key_of(event).startswith(kind.__name__)
    _, template = TEXTS[key]
    assert text_of(event, 0)
    assert template.format_map(_Names(set(hints)))


class _Names(dict[str, str]):
    """Fails for a field that the type does not have."""

    def __init__(self, names: set[str]) -> None:
        super().__init__({name: _Text(name) for name in names})


class _Text(str):
    def __format__(self, spec: str) -> str:
        return str(self)


def _sample(hint: Any, text: str) -> Any:
    options = get_args(hint) or (hint,)
    if all(isinstance(option, str) for option in options):
        return options[-1]
    if hint is Raw:
        return Raw(b'"\\u001b[31m"')
    if e.Failure in options:
        return e.Failure(text, text)
    if tuple in (hint, getattr(hint, "__origin__", None)):
        return (1,) if int in options else (text,)
    return {bool: True, int: 3, float: 12.5}.get(options[0], text)


def test_a_run_is_told_in_order_with_times_and_durations() -> None:
    log = Log(by="ada", params=Raw(b'{"order":17}'))
    log.add(*began("fetch")).add(done("fetch", output=b"[1]", ms=40.0), *began("pay")).add(done("pay"))
    told = log.add(e.RunCompleted(output=Raw(b'"ok"'))).explained()
    assert [entry.text for entry in told.timeline.entries] == [
        'Run of w created by ada: {"order":17}',
        "fetch completed in 40 ms: [1]",
        "pay completed (after 1 s)",
        'Run completed: "ok"',
    ]
    assert [entry.elapsed_ms for entry in told.timeline.entries] == [0, 2000, 3000, 4000]
    assert [(entry.kind, entry.node, entry.level) for entry in told.timeline.entries][1] == (
        *("NodeCompleted", "fetch", "notice"),
    )
    assert told.headline == "Run r of workflow w completed after 4 s: 2 nodes completed."
    assert told.state == ("Completed.",)


def test_a_failed_attempt_gives_its_error_and_when_the_next_one_is_due() -> None:
    log = Log().add(*began("a"))
    log.add(e.NodeFailed(node="a", error=ERROR, retry_at=log.history.time + 31 * SECOND))
    assert log.texts()[-1] == "a failed: ConnectionError: no route; next attempt in 30 s (after 1 s)"
    assert log.entries()[-1].level == "warning"
    log.add(*began("a", 2, cause="retry")).add(done("a", 2))
    assert log.texts()[-1] == "a completed (attempt 2) (after 1 s)"
    assert "1 attempt retried" in log.explained().headline


def test_a_failure_gives_the_users_frame_and_the_useful_actions() -> None:
    trace = 'Traceback\n  File "flows.py", line 3, in w\n  File "shop.py", line 12, in a\nConnectionError: no route'
    error = e.Failure("builtins:ConnectionError", "no route", trace)
    log = Log().add(*began("a"))
    log.add(e.NodeFailed(node="a", error=error, ms=1200.0), e.RunFailed(error=error, node="a", recoverable=True))
    told = log.explained()
    assert log.texts()[-2:] == [
        "a failed after 1.2 s: ConnectionError: no route",
        "Run failed in a and can be resumed: ConnectionError: no route",
    ]
    assert [entry.level for entry in log.entries()][-2:] == ["error", "error"]
    assert (told.cause, user_frame(error)) == ("ConnectionError: no route (shop.py:12 in a)", "shop.py:12 in a")
    inside = trace.replace("\nConn", '\n  File "/usr/lib/python3.11/socket.py", line 9, in connect\nConn')
    assert user_frame(msgspec.structs.replace(error, trace=inside)) == "shop.py:12 in a"
    assert told.state == (f"Failed: {told.cause}. It can be resumed after the cause is removed.",)
    assert [each.command for each in told.actions] == [
        "outlast resume r",
        "outlast show r --verbose",
        "outlast logs r a",
    ]


def test_a_lost_worker_is_told_with_the_nodes_that_are_repeated() -> None:
    log = Log().add(*began("a"), *began("b")).add(done("a")).take_over().add(e.NodeStarted(node="b", attempt=2))
    log.add(done("b", 2))
    assert log.texts()[1:] == [
        "a completed (after 1 s)",
        "Worker died; run taken over by w2 (epoch 2)",
        "b scheduled again after an interruption (attempt 2)",
        "b completed (attempt 2) (after 1 s)",
    ]
    assert "1 worker lost, 1 interrupted node repeated" in log.explained().headline


def test_a_claim_without_an_interruption_is_info() -> None:
    log = Log().take_over("claimed")
    assert log.texts() == ["Run of w created"]
    assert log.texts(full=True)[-1] == "Run claimed by w2 (epoch 2)"


def test_a_map_of_ten_thousand_items_is_one_entry() -> None:
    log = Log()
    for number in range(10_000):
        log.add(*began(f"read/{number}"), done(f"read/{number}"), seconds=0.001)
    (_, entry) = log.entries()
    assert entry.text == "10,000 nodes of read completed within 10 s; last: read/9999 completed"
    assert (entry.count, entry.last) == (10_000, log.history.seq)
    assert len(log.texts(full=True)) == 30_002


def test_failures_of_a_group_quote_the_first_one() -> None:
    log = Log()
    for number in range(40):
        log.add(*began(f"f/{number}")).add(e.NodeFailed(node=f"f/{number}", error=e.Failure("E", f"no {number}")))
    assert log.texts()[1:] == ["40 nodes of f failed; first: f/0 failed: E: no 0 (after 1 s)"]
    assert log.entries()[-1].level == "error"


def test_a_question_is_told_with_who_answered_it_and_after_how_long() -> None:
    log = Log().add(e.InteractionRequested(interaction="q", prompt="Publish?"))
    assert log.texts()[-1] == "Question q asked: “Publish?”"
    told = log.explained()
    assert told.state == ("Waiting.", "Waits for answer to “Publish?”, for 1 s.")
    assert [(wait.kind, wait.id, wait.text, wait.since) for wait in told.waits] == [
        ("interaction", "q", "Publish?", log.entries()[-1].time)
    ]
    assert [each.verb for each in told.actions] == ["answer", "events"]
    log.add(e.InteractionAnswered(interaction="q", answer=Raw(b"true"), by="ada"), seconds=200)
    assert log.texts()[-1] == "Question q answered by ada: true (after 3 min 20 s)"


def test_a_question_that_is_answered_with_yes_or_no_has_a_command_that_can_be_copied() -> None:
    schema = Raw(b'{"type":"boolean"}')
    log = Log().add(*(e.InteractionRequested(interaction=name, prompt="Go?", schema=schema) for name in "pq"))
    assert [each.command for each in log.explained().actions][:2] == [
        "outlast answer r --yes --interaction p",
        "outlast answer r --yes --interaction q",
    ]


def test_who_paused_and_who_resumed_is_told() -> None:
    log = (
        Log()
        .add(*began("a"))
        .add(e.PauseRequested(by="bob", reason="lunch"))
        .add(e.RunPaused(by="bob", reason="lunch"))
    )
    assert "Interrupted; the next worker executes again: a." in log.explained().state
    log.add(*decide.resume(log.history.state, by="ada"))
    assert log.texts()[1:] == [
        "Pause requested by bob: lunch",
        "Run paused by bob: lunch",
        "Run resumed by ada",
        "a scheduled again on resume (attempt 2)",
    ]


def test_a_branch_tells_who_opened_it_where_why_and_what_was_left() -> None:
    log = Log().add(*began("a")).add(done("a"), *began("b"))
    cutoff = log.history.seq
    log.add(done("b"), e.InteractionRequested(interaction="q")).branch(cutoff, by="cleo", reason="too dry")
    assert log.texts()[-1] == (
        "Branch 1 opened after event 7 (jump by cleo: too dry); questions withdrawn: q; "
        "events 8–9 stay on branch 0, completed there: b"
    )
    assert [(link.kind, link.target) for link in log.entries()[-1].links] == [("event", "7")]
    log.branch(2, by="cleo")
    assert "stay on branches 0 and 1, completed there: a and b" in log.texts()[-1]


def test_a_branch_that_is_not_current_says_so() -> None:
    log = Log().add(*began("a")).add(done("a")).branch(2, by="cleo")
    told = log.explained(branch=0)
    assert not told.is_current
    assert told.state == ("Branch 0 is not the current one: the run continued on branch 1.",)
    assert [each.command for each in told.actions] == ["outlast explain r", "outlast compare r@0 r"]
    assert [entry.text for entry in told.timeline.entries] == ["Run of w created", "a completed (after 1 s)"]


def test_a_recovery_gives_its_code_its_reason_and_its_evidence() -> None:
    log = Log().add(e.RunRecovered(code="C1", reason="node a was started and its worker is gone", evidence=(1, 2)))
    assert log.texts()[-1] == "Run recovered from state C1: node a was started and its worker is gone (events 1 and 2)"


def test_children_timers_and_versions_are_told() -> None:
    log = Log().add(e.ChildStarted(child="c", workflow="parcel"))
    assert [(link.kind, link.target) for link in log.entries()[-1].links] == [("run", "c")]
    log.add(e.ChildEnded(child="c", status="failed", error=ERROR))
    log.add(e.TimerSet(timer="sleep", due=log.history.time + 61 * SECOND))
    log.add(e.TimerFired(timer="sleep"), seconds=60).add(e.VersionChanged(version="abcdef0123", previous="01"))
    assert log.texts()[1:] == [
        "Child run c started, workflow parcel",
        "Child run c failed: ConnectionError: no route (after 1 s)",
        "Timer sleep set for 1 min",
        "Timer sleep fired (after 1 min)",
        "Code version changed from 01 to abcdef01",
    ]


def test_a_wait_for_a_worker_is_told() -> None:
    log = Log.__new__(Log)
    log.history = History("r")
    log.add(e.RunCreated(workflow="w")).add(e.RunStarted(), seconds=5)
    assert log.texts()[-1] == "Run started after waiting 5 s for a worker"


@pytest.mark.parametrize(
    ("is_live", "expires", "sentence"),
    [(True, SECOND, "Worker w1 holds the run."), (False, -11, "Worker w1 is gone; its claim expired 12 s ago.")],
)
def test_the_holder_of_the_claim_is_told(is_live: bool, expires: int, sentence: str) -> None:
    log = Log().add(*began("a"))
    expires = log.history.time + (expires * SECOND if expires < 0 else expires)
    told = log.explained(holder=Holder("w1", is_live, expires))
    assert told.state == ("Running.", sentence, "Running: a.")
    assert told.holder is not None
    assert told.holder.is_live == is_live


def test_a_long_conversation_is_told_in_a_few_entries_that_count() -> None:
    log = Log()
    for number in range(60):
        name = "" if not number else f"#{number + 1}"
        log.add(*began(f"think{name}")).add(done(f"think{name}"), e.InteractionRequested(interaction=f"q{number}"))
        log.add(e.InteractionAnswered(interaction=f"q{number}", answer=Raw(b"1"), by="ada"))
    assert log.texts()[1:] == [
        "60 nodes of think completed within 2 min 57 s; last: think#60 completed (after 1 s)",
        "60 questions asked; last: Question q59 asked",
        "60 questions answered; last: Question q59 answered by ada: 1 (after 1 s)",
    ]


def test_a_timeline_that_cannot_be_joined_omits_its_middle_and_says_so() -> None:
    log = Log()
    for number in range(100):
        if number % 2:
            log.add(e.TimerSet(timer=f"t{number}", due=0))
        else:
            log.add(e.StepStarted(step=f"s{number}"), e.StepCompleted(step=f"s{number}"))
    timeline = log.explained(limit=2).timeline
    assert (len(timeline.entries), timeline.omitted, timeline.gap) == (2, 1, 1)
    assert timeline.entries[-1].last == log.history.seq


def test_work_of_many_kinds_is_joined_when_there_is_too_much_of_it() -> None:
    log = Log()
    for number in range(100):
        name = f"job{chr(97 + number // 10)}{chr(97 + number % 10)}"
        log.add(*began(name)).add(done(name))
    assert log.texts()[1:] == [
        "100 nodes of jobaa, jobab, jobac and 97 more completed within 3 min 18 s; last: jobjj completed (after 1 s)"
    ]


@pytest.mark.parametrize("text", ["{n}", "{after}", "%s", "{0}", "a\nb\x1b[2J"])
def test_text_of_users_is_never_formatted(text: str) -> None:
    log = Log(by=text, title=text).add(e.InteractionRequested(interaction="q", prompt=text))
    log.add(e.InteractionAnswered(interaction="q", by=text), e.CancelRequested(by=text, reason=text))
    log.add(e.CancelRequested(by=text, reason=text))
    shown = " ".join(text.split()).replace("\x1b", "\\x1b")
    for limit in (2, MAX_ENTRIES):
        texts = log.texts(limit=limit)
        assert shown in "\n".join(texts)
        assert all(each.isprintable() for each in texts)


@pytest.mark.parametrize(
    ("time", "told"),
    [
        (0, "0 s"),
        (400, "0.4 ms"),
        (95_000, "95 ms"),
        (1_600_000, "1.6 s"),
        (59_990_000, "1 min"),
        (200 * SECOND, "3 min 20 s"),
        (18_600 * SECOND, "5 h 10 min"),
        (86_400 * 9 * SECOND, "9 d"),
        (-5, "0 s"),
    ],
)
def test_a_duration_has_two_units_at_most(time: int, told: str) -> None:
    assert duration(time) == told


@pytest.mark.parametrize(
    ("node", "kind", "told"),
    [
        ("fetch", "fetch", "fetch"),
        ("fetch#12", "fetch", "fetch"),
        ("fetch[a/b#1]", "fetch", "fetch"),
        ("read/read/17", "read/read/*", "read/read"),
        ("3/fetch#2", "*/fetch", "fetch"),
        ("items/4/fetch", "items/*/fetch", "items/…/fetch"),
    ],
)
def test_nodes_of_one_kind_share_a_name(node: str, kind: str, told: str) -> None:
    assert (base(node), label(kind)) == (kind, told)


def test_lists_are_cut_and_counted() -> None:
    assert [listed("a"), listed("ab"), listed("abc"), listed("abcd")] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and 1 more",
    ]


def test_names_for_people_have_no_mark_of_a_branch() -> None:
    log = Log().add(e.InteractionRequested(interaction="ask~b3.2"))
    log.add(e.ChildStarted(child="c", workflow="flow", node="pay~b1"))
    explained = log.explained(full=True)
    text = " ".join([*(entry.text for entry in explained.timeline.entries), *explained.state])
    assert "Question ask asked" in text
    assert "answer to “ask”" in text
    assert "~b" not in text
