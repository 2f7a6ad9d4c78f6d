"""Writes the golden logs: `PYTHONPATH=tests python tests/histories/make.py`.

Each story becomes `<name>.jsonl`, one append record per line with its body as text and its digest in hex, and
`<name>.expected.json`, what it amounts to. Golden logs are only ever added: a file that is there is never written again,
since it stands for the logs people already have. To change a story, tell a new one under another name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from outlast.definition.retry import Retry
from outlast.errors import RunDiverged
from outlast.history import events as e
from outlast.history.lineage import lineage
from outlast.history.record import Kind, Record
from outlast.lifecycle import branch_plan, decide
from outlast.lifecycle.summary import summarise
from support.histories import History

HERE = Path(__file__).parent
SECOND = 1_000_000
FLAKY = e.Failure("ConnectionError", "reset by peer", trace="node.py:7", category="transient")


class Story(History):
    """A history whose appends are a second apart."""

    def add(self, *events: e.AnyEvent, kind: Kind = Kind.OWNER, epoch: int | None = None) -> None:
        self.write(events, kind, epoch=epoch, time=self.time + SECOND)

    def begin(self, *events: e.AnyEvent, **fields: object) -> None:
        created = replace(e.RunCreated(workflow="orders", version="1", params=Raw(b'{"order":17}'), by="ada"), **fields)
        self.add(created, e.RunStarted(), *events, epoch=1)

    def jump(self, cutoff: int, request: int = 0) -> e.AnyEvent:
        (opened,) = self.cut(cutoff, by="ada", reason="try again", request=request)
        return opened


def first(node: str, **started: str) -> list[e.AnyEvent]:
    return [e.NodeScheduled(node=node), replace(e.NodeStarted(node=node), **started)]


def plain_success(story: Story) -> None:
    story.begin(*first("fetch", hash="h1", code="c1"), title="Order 17", tags=("eu", "paid"))
    story.add(e.NodeCompleted(node="fetch", output=Raw(b'{"total":12.50}'), ms=3.25), *first("charge"))
    story.add(e.NodeCompleted(node="charge", output=Raw(b"true"), ms=40.0))
    story.add(e.RunCompleted(output=Raw(b'"shipped"'), ms=2000.0))


def retry_then_success(story: Story) -> None:
    retry = Retry(max_attempts=3, delay=2.0, jitter=0.0)
    story.begin(*first("fetch"))
    story.add(*decide.fail_node(story.state, "fetch", FLAKY, retry, now=story.time, ms=9.0))
    story.add(e.TimerFired(timer="retry:fetch"), kind=Kind.GUEST)
    story.add(*decide.retry_node(story.state, "fetch"), e.NodeStarted(node="fetch", attempt=2))
    story.add(e.NodeCheckpointed(node="fetch", attempt=2, data=Raw(b'{"page":3}')))
    story.add(e.NodeCompleted(node="fetch", attempt=2, output=Raw(b"[1,2]")), e.RunCompleted(output=Raw(b"[1,2]")))


def crash_and_takeover(story: Story) -> None:
    story.begin(*first("a"), *first("b"), e.NodeScheduled(node="c"))
    story.add(e.NodeCompleted(node="a", output=Raw(b"1")))
    taken = decide.take_over(story.state, 3, "worker-2", previous="worker-1", cause="dead")
    story.add(*taken, kind=Kind.TAKEOVER, epoch=3)
    story.add(e.NodeStarted(node="b", attempt=2), e.NodeStarted(node="c"))
    story.add(e.NodeCompleted(node="b", attempt=2, output=Raw(b"2")), e.NodeCompleted(node="c", output=Raw(b"3")))
    story.add(e.RunCompleted(output=Raw(b"6")))


def question_answered_by_a_guest(story: Story) -> None:
    asked = e.InteractionRequested(
        interaction="q-1",
        node="review",
        key="ok",
        kind="approve",
        prompt="Refund order 17?",
        schema=Raw(b'{"type":"boolean"}'),
        hash="p1",
        due=story.time + 3600 * SECOND,
    )
    story.begin(*first("review"))
    story.add(asked, e.NodeCompleted(node="review"))
    story.add(e.SignalReceived(signal="s-1", name="note", data=Raw(b'"hurry"'), by="bob"), kind=Kind.GUEST)
    story.add(e.PauseRequested(by="bob"), kind=Kind.CONTROL)
    story.add(e.InteractionAnswered(interaction="q-1", answer=Raw(b"true"), by="ada"), kind=Kind.GUEST)
    story.add(e.RunPaused(reason="bob asked for it"))
    story.add(e.RunStarted(resumed=True, by="bob"), e.SignalAwaited(wait="w-1", name="note"))
    story.add(e.SignalConsumed(signal="s-1", wait="w-1"), e.DecisionRecorded(key="refund", value=Raw(b"true")))
    story.add(e.TimerSet(timer="cool-off", due=story.time + 60 * SECOND))


def branch_and_adopt(story: Story) -> None:
    story.begin(*first("left", hash="h1", code="c1"), *first("right", hash="h2", code="c2"), kind="graph")
    story.add(e.NodeCompleted(node="left", output=Raw(b'"L"')), e.NodeCompleted(node="right", output=Raw(b'"R"')))
    story.add(e.RunCompleted(output=Raw(b'"LR"')))
    story.add(e.JumpRequested(target=2, branch=1, by="ada"))
    story.add(
        story.jump(2, request=story.seq),
        e.VersionChanged(version="2", previous="1"),
        *first("left", hash="h1", code="c3"),
    )
    story.add(
        e.NodeCompleted(node="right", output=Raw(b'"R"'), adopted=8), e.NodeCompleted(node="left", output=Raw(b'"l"'))
    )
    story.add(e.RunCompleted(output=Raw(b'"lR"')))
    story.add(story.jump(0), e.RunStarted(), *first("left"))


def held_and_resumed(story: Story) -> None:
    story.begin(*first("pay"), on_restart="hold")
    taken = decide.take_over(story.state, 2, "worker-2", previous="worker-1", cause="expired")
    story.add(*taken, kind=Kind.TAKEOVER, epoch=2)
    story.add(*decide.resume(story.state, by="ada"))
    story.add(e.NodeStarted(node="pay", attempt=2), e.NodeFailed(node="pay", attempt=2, error=FLAKY))
    story.add(e.RunFailed(error=FLAKY, node="pay", recoverable=True))
    story.add(e.RunRecovered(code="A4", reason="a person asked", evidence=(9, 10)))
    story.add(*decide.resume(story.state, by="ada"))
    story.add(e.RunFailed(error=e.Failure(RunDiverged.code, "the code changed"), held=True))


def saga_compensation(story: Story) -> None:
    story.begin(e.StepStarted(step="book"), *first("flight"), *first("hotel"))
    story.add(e.NodeCompleted(node="flight", output=Raw(b'"F1"')), e.NodeCompleted(node="hotel", output=Raw(b'"H1"')))
    story.add(e.StepCompleted(step="book"), *first("car"), e.NodeSkipped(node="insurance", reason="not wanted"))
    story.add(e.NodeFailed(node="car", error=e.Failure("SoldOut", "no cars", data=Raw(b'{"city":"Ulm"}'))))
    story.add(e.CompensationStarted(node="hotel"))
    story.add(e.CompensationFailed(node="hotel", error=FLAKY), e.CompensationStarted(node="hotel", attempt=2))
    story.add(e.NodeCompensated(node="hotel", attempt=2, ms=8.0), e.CompensationStarted(node="flight"))
    story.add(e.NodeCompensated(node="flight"), e.RunFailed(error=e.Failure("SoldOut", "no cars"), node="car"))


def trigger_outbox_children(story: Story) -> None:
    story.begin(e.TriggerRegistered(trigger="inbox", kind="folder", config=Raw(b'{"path":"in"}')), kind="trigger")
    story.add(e.TriggerInputReceived(trigger="inbox", input="a.csv", data=Raw(b'{"size":3}')), kind=Kind.GUEST)
    story.add(
        e.TriggerCursorAdvanced(trigger="inbox", cursor=7, count=1), e.ChildStarted(child="child-1", workflow="load")
    )
    story.add(e.OutboxEnqueued(message="m-1", target="mail", data=Raw(b'"hello"')), e.GraphExtended(by="planner"))
    story.add(e.ChildStarted(child="child-2", workflow="audit", detached=True))
    story.add(e.ChildEnded(child="child-1", output=Raw(b"3")), kind=Kind.GUEST)
    story.add(e.TriggerInputReceived(trigger="inbox", input="b.csv", cursor=8))
    story.add(e.TimerSet(timer="idle", due=story.time), e.TimerCancelled(timer="idle", reason="busy"))
    story.add(e.RunContinued(successor="orders-2", carried=Raw(b'{"cursor":8}')))
    story.add(e.OutboxSent(message="m-1", receipt="250 ok"), kind=Kind.GUEST)
    story.add(e.ChildEnded(child="child-2", status="failed", error=FLAKY), kind=Kind.GUEST)


def fields_of_a_newer_version(story: Story) -> None:
    story.add(e.RunCreated(workflow="orders", more={"region": Raw(b'"eu"')}), kind=Kind.GUEST, epoch=0)
    taken = e.RunTakenOver(epoch=1, worker="worker-1", more={"host": Raw(b'{ "name": "n1" }')})
    story.add(taken, e.RunStarted(), kind=Kind.TAKEOVER, epoch=1)
    story.add(e.InteractionRequested(interaction="q", more={"priority": Raw(b"3"), "lang": Raw(b'"de"')}))
    story.add(e.InteractionWithdrawn(interaction="q"), e.CancelRequested(), e.RunCancelled(reason="changed my mind"))


def guest_events_read_and_nodes_retired(story: Story) -> None:
    story.begin(*first("1/fetch"), e.InteractionRequested(interaction="ask", prompt="Go on?"))
    story.add(e.InteractionAnswered(interaction="ask", answer=Raw(b"true"), by="ada"), kind=Kind.GUEST)
    story.add(e.NodeCompleted(node="1/fetch", output=Raw(b"1")), *first("2/fetch"))
    story.add(e.GuestEventsRead(upto=6), e.NodeScheduled(node="pay"), e.NodeStarted(node="pay", repeatable=False))
    story.add(e.NodeCompleted(node="2/fetch", output=Raw(b"2")), e.NodesRetired(nodes=("1/fetch", "2/fetch")))
    story.add(e.NodeCompleted(node="pay"), e.RunCompleted(output=Raw(b"3")))


def redone_and_forked(story: Story) -> None:
    """A fork of another run, in which a person had a node done again with other inputs, and gave the output of one."""
    story.add(
        e.RunCreated(workflow="orders", version="1", forked_from="other", forked_at=9),
        e.Recalled(at=2, time=story.time - 60 * SECOND),
        e.RunStarted(),
        *first("fetch", hash="h1", code="c1"),
        e.Recalled(at=5, time=story.time - 59 * SECOND),
        e.NodeCompleted(node="fetch", output=Raw(b"1")),
        *first("sum", hash="h2", code="c1"),
        epoch=1,
    )
    story.add(e.NodeCompleted(node="sum", output=Raw(b"2")), *first("send"))
    feedback, inputs = Raw(b'"look closer"'), Raw(b'{"url":"b"}')
    asked = branch_plan.again(story.lineage, "fetch", feedback=feedback, inputs=inputs, by="ada")
    story.add(branch_plan.request_of(asked, 1), kind=Kind.CONTROL)
    asked = replace(asked, request=story.seq)
    story.add(*decide.open_branch(story.state, story.state_at(asked.cutoff), story.branches.values(), asked))
    story.add(e.NodeStarted(node="fetch", attempt=2, hash="h1", code="c1"))
    story.add(e.NodeCompleted(node="fetch", attempt=2, output=Raw(b"3")), *first("sum", hash="h3", code="c1"))
    given = branch_plan.instead(story.lineage, "fetch", Raw(b"4"), by="bob")
    story.add(*decide.open_branch(story.state, story.state_at(given.cutoff), story.branches.values(), given))


def requests_obeyed_and_refused(story: Story) -> None:
    """Two jumps and a pause are open at once; later a cancellation comes as the run completes."""
    story.begin(*first("fetch"))
    story.add(e.JumpRequested(target=2, branch=1, by="ada"), kind=Kind.CONTROL)
    story.add(e.JumpRequested(target=3, branch=1, by="bob"), e.PauseRequested(by="cy"), kind=Kind.CONTROL)
    story.add(*story.cut(3, by="bob", request=story.seq - 1))
    story.add(*decide.reopen(story.state, by="cy"), e.NodeStarted(node="fetch"))
    story.add(e.CancelRequested(by="ada"), kind=Kind.CONTROL)
    story.add(e.NodeCompleted(node="fetch"), *decide.end(story.state, e.RunCompleted())[-2:])


def children_cancelled_and_kept(story: Story) -> None:
    """Ada goes back twice: one child is kept and one cancelled, and the end of that one is received after the run ended."""
    story.begin(e.ChildStarted(child="child-1", workflow="ship", node="ship"))
    story.add(*story.cut(2, by="ada", children="keep"))
    story.add(e.ChildStarted(child="child-2", workflow="ship", node="ship~b1"))
    story.add(e.JumpRequested(target=2, branch=2, by="ada"), kind=Kind.CONTROL)
    story.add(*story.cut(2, by="ada", request=story.seq))
    story.add(*first("pack", hash="h1", code="c1"))
    story.add(e.ChildEnded(child="child-1", output=Raw(b"1")), kind=Kind.GUEST)
    story.add(e.NodeCompleted(node="pack"), e.RunCompleted(output=Raw(b"2")))
    story.add(e.ChildEnded(child="child-2", status="cancelled"), kind=Kind.GUEST)


def cancelled_with_cleanup(story: Story) -> None:
    """Cancelled at work; the node completes meanwhile. A crash interrupts the clean-up, and somebody ends it at once."""
    story.begin(*first("book"), e.TimerSet(timer="sleep", due=story.time + 600 * SECOND))
    story.add(e.CancelRequested(by="ada", reason="too dear"), kind=Kind.CONTROL)
    story.add(
        e.CleanupStarted(due=story.time + 31 * SECOND, by="ada", reason="too dear"),
        e.NodeCompleted(node="book", output=Raw(b'"B1"')),
        e.TimerCancelled(timer="sleep"),
        *first("cancel"),
    )
    story.add(*decide.take_over(story.state, 2, "w2", previous="w1", cause="dead"), kind=Kind.TAKEOVER, epoch=2)
    story.add(e.NodeStarted(node="cancel", attempt=2))
    story.add(e.NodeCompleted(node="cancel", attempt=2), *first("notify"))
    story.add(e.CancelRequested(by="bob", force=True), kind=Kind.CONTROL)
    story.add(*decide.end(story.state, decide.cancelled(story.state, "stopped")))


def copied_to_another_store(story: Story) -> None:
    """It has a key for itself, is paused because it is copied, and is set going where it arrives."""
    story.begin(*first("scan"), exclusive="folder:in")
    asked = e.PauseRequested(by="outlast copy", reason="copied to b.db, where it continues", copied_to="b.db")
    story.add(asked, kind=Kind.CONTROL)
    story.add(*decide.pause(story.state, asked))
    story.add(*decide.resume(story.state, by="outlast copy"), e.NodeStarted(node="scan", attempt=2))
    story.add(asked, kind=Kind.CONTROL)
    story.add(e.NodeCompleted(node="scan", attempt=2, output=Raw(b"7")), *decide.pause(story.state, asked))


def attributes_set(story: Story) -> None:
    """Attributes of each type are given at the start, changed, removed, and left on a branch."""
    due = e.Moment(story.time + 600 * SECOND)
    given: dict[str, e.AttributeValue] = {"customer": "acme", "total": 12.5, "items": 3, "due": due, "paid": False}
    story.begin(*first("ship"), attributes=given, queue="slow", priority=5, fairness_key="acme")
    story.add(e.NodeCompleted(node="ship"), e.AttributesSet(attributes={"paid": True, "due": None, "lot": 1}))
    story.add(*story.cut(4, by="ada"), e.NodeCompleted(node="ship"))
    story.add(e.AttributesSet(attributes={"total": 0.0, "note": "sent twice"}), e.RunCompleted())


STORIES: list[Callable[[Story], None]] = [
    plain_success,
    retry_then_success,
    crash_and_takeover,
    question_answered_by_a_guest,
    branch_and_adopt,
    held_and_resumed,
    saga_compensation,
    trigger_outbox_children,
    fields_of_a_newer_version,
    guest_events_read_and_nodes_retired,
    redone_and_forked,
    requests_obeyed_and_refused,
    children_cancelled_and_kept,
    cancelled_with_cleanup,
    copied_to_another_store,
    attributes_set,
]


def line(record: Record) -> str:
    fields = {name: getattr(record, name) for name in Record.__struct_fields__}
    fields |= {"id": record.id.hex(), "body": record.body.decode(), "digest": record.digest.hex()}
    return json.dumps(fields, ensure_ascii=False)


def expected(story: Story) -> str:
    told = {
        "status": story.state.status,
        "lineage": lineage(story.branches, story.branch, story.seq),
        "summary": msgspec.json.decode(msgspec.json.encode(summarise(story.run, story.state))),
    }
    return json.dumps(told, ensure_ascii=False, indent=2)


def main() -> None:
    for tell in STORIES:
        name = tell.__name__.replace("_", "-")
        log, result = HERE / f"{name}.jsonl", HERE / f"{name}.expected.json"
        if log.exists() or result.exists():
            print(f"{name} is there already and stays as it is")
            continue
        story = Story(name)
        tell(story)
        log.write_text("".join(f"{line(record)}\n" for record in story.records))
        result.write_text(expected(story) + "\n")
        print(f"{name}: {story.seq} events in {len(story.records)} appends, {story.state.status}")


if __name__ == "__main__":
    main()
