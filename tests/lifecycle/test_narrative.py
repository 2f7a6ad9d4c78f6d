"""The story of a run says in plain words what its log holds, and stays short however long the log is."""

from __future__ import annotations

import pytest
from msgspec import Raw

from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.lineage import lineage
from outlast.history.record import Entry, entries
from outlast.lifecycle import decide
from outlast.lifecycle.narrative import LINES, TREATMENTS, Story, Tone, narrate
from outlast.lifecycle.narrative.phrases import base, duration, label, listed, moment, ordinal
from support.histories import History

SECOND = 1_000_000
ERROR = e.Failure("builtins:ConnectionError", "no route", category="transient")


class Tale:
    """A log that is written second by second."""

    def __init__(self, **created: object) -> None:
        self.history = History("r")
        self.began = self.history.time
        self.say(e.RunCreated(workflow="w", **created), e.RunStarted(), seconds=0)  # type: ignore[arg-type]

    def say(self, *events: e.AnyEvent, seconds: float = 1) -> Tale:
        time = self.history.time + int(seconds * SECOND)
        self.history.write(events, epoch=self.history.epoch or 1, time=time)
        return self

    def take_over(self, cause: str = "dead") -> Tale:
        epoch = self.history.epoch + 1
        events = decide.take_over(self.history.state, epoch, "w2", cause=cause)  # type: ignore[arg-type]
        self.history.write(events, epoch=epoch, time=self.history.time + SECOND)
        return self

    def branch(self, cutoff: int, **why: str) -> Tale:
        return self.say(*self.history.cut(cutoff, **why))

    def told(self, *, full: bool = False, branch: int | None = None, lines: int = LINES) -> Story:
        history = self.history
        branch = history.branch if branch is None else branch
        end = history.told[branch][-1].seq
        log: list[Entry] = [entry for record in history.records for entry in entries(record) if entry.seq <= end]
        intervals = lineage(history.branches, branch, end)
        now = history.time + SECOND
        return narrate(RunId("r"), log, now, lineage=intervals, newest=history.branch, full=full, lines=lines)

    def texts(self, **how: bool) -> list[str]:
        return [sentence.text for sentence in self.told(**how).sentences]  # type: ignore[arg-type]


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


def test_every_type_of_event_that_is_written_has_a_treatment() -> None:
    assert set(TREATMENTS) == set(e.EVENT_TYPES.values()) - UNWRITTEN, (
        "say in narrative/about_*.py what a new event adds to a story"
    )


def test_a_plain_run_is_told_in_order_with_times_and_durations() -> None:
    tale = Tale(by="ada", params=Raw(b'{"order":17}'))
    tale.say(*began("fetch")).say(done("fetch", output=b"[1]", ms=40.0), *began("pay")).say(done("pay"))
    story = tale.say(e.RunCompleted(output=Raw(b'"ok"'))).told()
    assert [sentence.text for sentence in story.sentences] == [
        'ada started it with {"order":17}.',
        "fetch completed in 40 ms: [1].",
        "pay completed in 1 s.",
        'The run completed: "ok".',
    ]
    assert [sentence.after for sentence in story.sentences] == [0, SECOND, 2 * SECOND, 4 * SECOND]
    assert story.headline == "Run r of workflow w completed after 4 s: 2 nodes completed."
    assert story.now == ("It is over.",)


def test_attempts_that_failed_are_told_with_what_they_said() -> None:
    tale = Tale().say(*began("a")).say(e.NodeFailed(node="a", error=ERROR, retry_at=1))
    assert tale.texts()[-1] == "a failed and waits for another attempt: ConnectionError: no route."
    tale.say(*began("a", 2, cause="retry")).say(done("a", 2))
    told = "a completed in 1 s, at its 2nd attempt; an attempt failed before that, ConnectionError: no route."
    assert tale.texts()[-1] == told


def test_a_failure_is_told_once_and_says_what_may_be_done() -> None:
    tale = (
        Tale()
        .say(*began("a"))
        .say(e.NodeFailed(node="a", error=ERROR, ms=1200.0), e.RunFailed(error=ERROR, node="a", recoverable=True))
    )
    story = tale.told()
    assert [sentence.text for sentence in story.sentences][-2:] == [
        "a failed after 1.2 s: ConnectionError: no route.",
        "The run failed because of a.",
    ]
    assert [sentence.tone for sentence in story.sentences][-2:] == [Tone.TROUBLE, Tone.TROUBLE]
    assert story.now == ("It failed, and can go on once the cause is gone.",)
    assert [(each.verb, each.arguments) for each in story.next] == [("resume", ()), ("logs", ("a",))]


def test_a_lost_worker_is_told_with_what_it_left_and_what_is_done_again() -> None:
    tale = Tale().say(*began("a"), *began("b")).say(done("a")).take_over().say(e.NodeStarted(node="b", attempt=2))
    tale.say(done("b", 2))
    assert tale.texts()[1:] == [
        "a completed in 1 s.",
        "b was begun, and no result of it was recorded.",
        "Its worker died, and another one took it over; done again: b.",
        "b completed in 1 s, at its 2nd attempt.",
    ]
    assert "a worker was lost once (1 interrupted node done again)" in tale.told().headline


def test_a_run_that_is_only_claimed_again_was_not_interrupted() -> None:
    tale = Tale().take_over("claimed")
    assert tale.texts() == ["It was started."]
    assert tale.texts(full=True)[-1] == "Worker w2 took it up (epoch 2)."


def test_a_map_of_ten_thousand_items_is_one_sentence() -> None:
    tale = Tale()
    for number in range(10_000):
        tale.say(*began(f"read/{number}"), done(f"read/{number}"), seconds=0.001)
    assert tale.texts()[1:] == ["10,000 nodes of read completed within 10 s."]
    assert len(tale.texts(full=True)) == 10_002


def test_a_group_says_how_many_of_it_are_where() -> None:
    tale = Tale().say(*began("f"), *began("f#2"), *began("f[x]"), e.NodeScheduled(node="f#3"))
    tale.say(done("f"), e.NodeFailed(node="f#2", error=ERROR))
    assert tale.texts()[1:] == [
        "4 nodes of f, in 1 s: 1 completed, 1 failed, 1 is at work, 1 had not begun yet; "
        "failed for good: f#2, ConnectionError: no route."
    ]


def test_a_question_and_its_answer_are_one_sentence() -> None:
    tale = Tale().say(e.InteractionRequested(interaction="q", prompt="Publish?"))
    assert tale.texts()[-1] == "It asked “Publish?”."
    assert tale.told().now == ("It waits for an answer to “Publish?”.",)
    assert [each.verb for each in tale.told().next] == ["answer", "events"]
    tale.say(e.InteractionAnswered(interaction="q", answer=Raw(b"true"), by="ada"), seconds=200)
    assert tale.texts()[-1] == "It asked “Publish?”, and ada answered true after 3 min 20 s."


def test_an_answer_after_a_turn_of_the_story_is_told_by_itself() -> None:
    tale = Tale().say(e.InteractionRequested(interaction="q", prompt="Publish?")).say(e.RunPaused(reason="lunch"))
    tale.say(e.InteractionAnswered(interaction="q", answer=Raw(b"false")), seconds=60)
    assert tale.texts()[1:] == [
        "It asked “Publish?”.",
        "It was paused: lunch.",
        "Somebody answered “Publish?” with false, 1 min 1 s after it was asked.",
    ]


def test_who_paused_and_who_had_it_go_on_is_told() -> None:
    tale = Tale().say(*began("a")).say(e.PauseRequested(by="bob", reason="lunch")).say(e.RunPaused())
    tale.say(*decide.resume(tale.history.state, by="ada"))
    assert tale.texts()[1:] == [
        "a was begun, and no result of it was recorded.",
        "bob had it paused: lunch.",
        "ada had it go on; done again: a.",
        "a was to be done again.",
    ]


def test_a_branch_says_who_went_back_where_why_and_what_stays_behind() -> None:
    tale = Tale().say(*began("a")).say(done("a"), *began("b"))
    cutoff = tale.history.seq
    tale.say(done("b"), e.InteractionRequested(interaction="q")).branch(cutoff, by="cleo", reason="too dry")
    assert tale.texts()[-1] == (
        "cleo went back to event 7, NodeStarted of b, and opened branch 1: too dry; "
        "events 8–9 stay on branch 0: b had completed; 1 open question withdrawn."
    )


def test_a_branch_that_was_left_says_so() -> None:
    tale = Tale().say(*began("a")).say(done("a")).branch(2, by="cleo")
    story = tale.told(branch=0)
    assert not story.is_current
    assert story.now == ("This branch was left; the run went on on branch 1.",)
    assert [each.verb for each in story.next] == ["explain", "compare"]
    assert [sentence.text for sentence in story.sentences] == ["It was started.", "a completed in 1 s."]


def test_a_recovery_says_its_code_and_what_that_means() -> None:
    tale = Tale().say(e.RunRecovered(code="C1", reason="nobody had it", evidence=(1, 2)))
    assert tale.texts()[-1] == (
        "It was recovered, C1 (seen by events 1 and 2): a node had been started and not completed, and its worker was "
        "gone; nobody had it."
    )


def test_children_timers_and_versions_are_told() -> None:
    tale = Tale().say(e.ChildStarted(child="c", workflow="parcel"))
    tale.say(e.ChildEnded(child="c", status="failed", error=ERROR))
    tale.say(e.TimerSet(timer="sleep", due=tale.history.time + 61 * SECOND))
    tale.say(e.TimerFired(timer="sleep"), seconds=60).say(e.VersionChanged(version="abcdef0123", previous="01"))
    assert tale.texts()[1:] == [
        "The child parcel (c) failed in 1 s: ConnectionError: no route.",
        "It waited 1 min (sleep).",
        "Its code changed (01 to abcdef01), and it goes on with the new version.",
    ]


def test_a_long_conversation_is_told_in_a_few_lines_that_count() -> None:
    tale = Tale()
    for number in range(60):
        name = "" if not number else f"#{number + 1}"
        tale.say(*began(f"think{name}")).say(done(f"think{name}"), e.InteractionRequested(interaction=f"q{number}"))
        tale.say(e.InteractionAnswered(interaction=f"q{number}", answer=Raw(b"1"), by="ada"))
    story = tale.told()
    assert len(story.sentences) == 3
    assert story.sentences[1].text == "60 nodes of think completed within 2 min 58 s."
    assert story.sentences[2].text.startswith("60 questions were asked: answered by ada; the last: It asked “q59”")


def test_a_story_that_cannot_be_grouped_loses_its_middle_and_says_so() -> None:
    tale = Tale()
    for number in range(100):
        tale.say(e.ChildStarted(child=f"c{number}", workflow=f"kind {'x' * number}"))
    story = tale.told()
    assert (len(story.sentences), story.omitted, story.gap) == (LINES, 101 - LINES, LINES // 3)
    assert story.sentences[-1].last == tale.history.seq


def test_work_of_many_kinds_is_told_together_when_there_is_too_much_of_it() -> None:
    tale = Tale()
    for number in range(100):
        tale.say(*began(f"job{chr(97 + number // 10)}{chr(97 + number % 10)}")).say(
            done(f"job{chr(97 + number // 10)}{chr(97 + number % 10)}")
        )
    assert tale.texts()[1:] == ["100 nodes of jobaa, jobab, jobac and 97 more completed within 3 min 19 s."]


@pytest.mark.parametrize("text", ["{n}", "{after}", "%s", "{0}", "a\nb\x1b[2J"])
def test_words_of_users_are_never_taken_for_ours(text: str) -> None:
    tale = Tale(by=text, title=text).say(e.InteractionRequested(interaction="q", prompt=text))
    tale.say(e.InteractionAnswered(interaction="q", by=text), e.CancelRequested(by=text, reason=text))
    tale.say(e.CancelRequested(by=text, reason=text))
    shown = " ".join(text.split())
    for lines in (2, LINES):
        assert shown in "\n".join(sentence.text for sentence in tale.told(lines=lines).sentences)


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
def test_lengths_of_time_are_told_as_people_say_them(time: int, told: str) -> None:
    assert duration(time) == told


def test_places_in_time_are_no_more_exact_than_a_reader_wants_them() -> None:
    assert [moment(time) for time in (0, 999, 2_150, 1_260_000, 61 * SECOND)] == [
        "0 s",
        "0 s",
        "2 ms",
        "1.3 s",
        "1 min 1 s",
    ]


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
    assert [listed("a"), listed("ab"), listed("abc"), listed("abcd"), listed("ab", 9)] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and 1 more",
        "a, b and 7 more",
    ]
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 21, 112)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "112th")
    ]
