"""What a store keeps beside the log of a run, made wrong by editing the file: rows missing, cells wrong, summaries ahead and
behind. Nobody builds on a log whose end is in doubt (G3, G5); what follows from the log is written again from it (G2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from outlast.engine.completion import successor_of
from outlast.errors import OutlastError
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.lifecycle import decide
from outlast.services.sweeper import Sweeper
from outlast.testing.processes import engine_over
from support.sampling import share, spot_check

RUN = RunId("ill")
LAMP = "lamp fetched packed shipped"


def completed(node: str) -> Any:
    return lambda event: isinstance(event, e.NodeCompleted) and event.node == node


def paying(ward: Any) -> None:
    """A run whose money was sent, and whose worker died."""
    ward.do(ward.left_after(ward.flows.doctor_paying, completed("pay")))


# --- a log whose end is in doubt (G3, G5) ------------------------------------------------------------------------------


def end_lost(ward: Any) -> None:
    """The log and the head are of an older copy; the summary remembers more."""
    ward.do(ward.left_after(ward.flows.doctor_paying, e.RunCompleted))
    ward.sql("delete from log where first > 5")
    ((first, count, digest),) = ward.rows("select first, count, digest from log order by first desc limit 1")
    ward.sql("update head set version = ?, digest = ?, closed = false", first + count - 1, digest)


def head_with(column: str, value: Any) -> Any:
    def make(ward: Any) -> None:
        paying(ward)
        ward.sql(f"update head set {column} = ?", value)

    return make


def head_behind(ward: Any) -> None:
    """The head is of an older copy, the log is not."""
    paying(ward)
    ((first, count, digest),) = ward.rows("select first, count, digest from log order by first desc limit 1 offset 1")
    ward.sql("update head set version = ?, digest = ?", first + count - 1, digest)
    ward.sql(f"update catalogue set at = 1, body = {ward.json_with(at=1)}")


IN_DOUBT = {
    "the summary is ahead of the log": (end_lost, "G5"),
    "the head has another digest": (head_with("digest", bytes(32)), "G3"),
    "the head has a greater epoch": (head_with("epoch", 9), "G3"),
    "the head has a smaller epoch": (head_with("epoch", 0), "G3"),
    "the head is of another branch": (head_with("branch", 1), "G3"),
    "the head says that its branch opened elsewhere": (head_with("branch_first", 3), "G3"),
    "the head is ahead of the log": (head_with("version", 99), "G3"),
    "the head is behind the log": (head_behind, "G3"),
}


async def by_worker(ward: Any) -> None:
    async with ward.engine() as engine:
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert [each.runs for each in await engine.workers()] == [[]]


async def by_sweeper(ward: Any) -> None:
    store = ward.open()
    await Sweeper(Ledger(store), stale_after=0).sweep()
    await store.close()


def by_verb(name: str) -> Any:
    async def act(ward: Any) -> None:
        async with ward.desk() as desk:
            with suppress(OutlastError):
                await getattr(desk, name)(RUN)

    return act


def by_guest(name: str, *arguments: Any) -> Any:
    async def act(ward: Any) -> None:
        async with ward.desk() as desk:
            with suppress(OutlastError):
                await getattr(desk, name)(RUN, *arguments)

    return act


async def by_signal(ward: Any) -> None:
    async with ward.desk() as desk:
        with suppress(OutlastError):
            await desk._ledger.deliver(RUN, [e.SignalReceived(signal="s-1", name="anything")])


GUESTS = {
    "a signal": by_signal,
    "an answer": by_guest("answer", True),
    "cancel": by_guest("cancel"),
    "pause": by_guest("pause"),
}
TAKERS = {
    "a worker": by_worker,
    "a sweeper": by_sweeper,
    "resume": by_verb("resume"),
    "retry": by_verb("retry"),
    "doctor --fix": by_verb("recover"),
}


TAKEN_THERE = spot_check([(name, taker) for name in IN_DOUBT for taker in TAKERS], 7, "takers on a server")
"""Of these, a sample on PostgreSQL; on SQLite half of them in `make test`."""


TAKEN = share([(name, taker) for name in IN_DOUBT for taker in TAKERS], 2, "takers")


def on_each(here: list[tuple[str, str]], there: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """These cases on SQLite, and those on PostgreSQL."""
    return [("sqlite", *each) for each in here] + [("postgres", *each) for each in there]


@pytest.mark.parametrize(("sql_ward", "name", "taker"), on_each(TAKEN, TAKEN_THERE), indirect=["sql_ward"])
def test_a_run_whose_log_ends_in_doubt_is_left_alone_and_its_claim_released(
    sql_ward: Any, name: str, taker: str
) -> None:
    """G3, G5: a node that must not be repeated is not executed, and nothing is appended or overwritten."""
    ward, (make, code) = sql_ward, IN_DOUBT[name]
    make(ward)
    kept = ward.dump()
    ward.do(TAKERS[taker](ward))
    assert ward.did == []
    now = ward.dump()
    assert {table: now[table] for table in ("log", "catalogue", "wait")} == {
        table: kept[table] for table in ("log", "catalogue", "wait")
    }
    told = ward.doctor(RUN)
    assert (told["exit"], [each["code"] for each in told["runs"][0]["findings"]]) == (1, [code])
    assert RUN in ward.shell("ps", "-a").stdout


DAMAGING = [name for name in IN_DOUBT if "epoch" not in name and "opened" not in name]
"""What a guest says does not depend on the others: the log stays sound."""


GUESTED = [(name, guest) for name in DAMAGING for guest in GUESTS]


@pytest.mark.parametrize(
    ("sql_ward", "name", "guest"), on_each(GUESTED, share(GUESTED, 3, "guests on a server")), indirect=["sql_ward"]
)
def test_a_guest_appends_nothing_to_a_log_whose_end_is_in_doubt(sql_ward: Any, name: str, guest: str) -> None:
    """G3, G5: it would damage the log for good, or hide that its end was lost."""
    ward, (make, code) = sql_ward, IN_DOUBT[name]
    make(ward)
    kept = ward.dump()["log"]
    ward.do(GUESTS[guest](ward))
    assert ward.dump()["log"] == kept
    assert [each["code"] for each in ward.doctor(RUN)["runs"][0]["findings"]] == [code]


def test_a_child_of_a_parent_in_doubt_ends_and_the_parent_receives_it_once_it_is_repaired(sql_ward: Any) -> None:
    ward = sql_ward
    parent(ward)
    ((digest,),) = ward.rows("select digest from head where run = 'ill'")
    ward.sql("update head set digest = ? where run = 'ill'", bytes(32))
    assert ward.do(ward._answered(child(ward), True)) == "lamp fetched (True) packed"
    assert [each["code"] for each in ward.doctor(RUN)["runs"][0]["findings"]] == ["G3"]
    ward.sql("update head set digest = ? where run = 'ill'", digest)
    assert ward.doctor(RUN, "--fix")["exit"] == 0
    assert ward.do(ward.complete(RUN)) == "lamp fetched (True) packed"


# --- what follows from the log, and is written again from it (G2) ------------------------------------------------------


def asking(ward: Any) -> None:
    ward.do(ward.left_after(ward.flows.doctor_asking, e.InteractionRequested))
    ward.do(release(ward))


def asking_twice(ward: Any) -> None:
    """Two questions, of which one was answered."""
    more = e.InteractionRequested(interaction="q2", node="", key="again", prompt="Really?")
    ward.do(ward.left_after(ward.flows.doctor_asking, e.InteractionRequested, more))
    ward.do(release(ward))


def branched(ward: Any) -> None:
    """A run that went back and waits again on its second branch."""

    async def make() -> None:
        async with ward.engine() as engine:
            handle = await engine.start(ward.flows.doctor_asking.options(id=RUN, title="A lamp", tags=("new",)), "lamp")
            await until(engine, lambda summary: summary.waiting)
            await engine.answer(RUN, True)
            await handle.result()
            await engine.jump(RUN, "fetch")
            await until(engine, lambda summary: summary.waiting)

    ward.do(make())


def over(ward: Any) -> None:
    ward.do(ward.left_after(ward.flows.doctor_errand, e.RunCompleted))
    ward.do(release(ward))


def continued(ward: Any) -> None:
    """A run that went on as another, which waits."""

    async def make() -> None:
        async with ward.engine() as engine:
            await engine.start(ward.flows.doctor_continuing.options(id=RUN), "lamp")
            while (await engine.get(RUN)).status != "completed":
                await asyncio.sleep(0.005)
            await until(engine, lambda summary: summary.waiting, successor_of(RUN))

    ward.do(make())


def parent(ward: Any) -> None:
    """A run that waits for its child, which asks."""

    async def make() -> None:
        async with ward.engine() as engine:
            await engine.start(ward.flows.doctor_guardian.options(id=RUN), "lamp")
            await until(engine, lambda summary: summary.waiting)
            while not ward.rows("select run from head where run != ?", RUN):
                await asyncio.sleep(0.005)
            await until(engine, lambda summary: summary.waiting, child(ward))

    ward.do(make())


def child(ward: Any) -> RunId:
    ((run,),) = ward.rows("select run from head where run != ?", RUN)
    return RunId(run)


async def until(engine: Any, is_so: Any, run: RunId = RUN) -> None:
    while not is_so(await engine.get(run)):
        await asyncio.sleep(0.005)


async def release(ward: Any) -> None:
    """The worker left the run as it should."""
    store = ward.open()
    for holding in await store.holdings():
        head = await store.head(holding.run)
        await store.release(holding.run, holding.worker, head.version)
    await store.close()


BASES = {
    "a run that asks": asking,
    "a run with two questions": asking_twice,
    "a run on its second branch": branched,
    "a run that is over": over,
    "a run that continued": continued,
    "a parent": parent,
}
OF_RUN = "(select id from head where run = 'ill')"


def record_with(**changes: Any) -> Callable[[Any], str]:
    return lambda ward: f"update catalogue set body = {ward.json_with(**changes)} where run = 'ill'"


EDITS: dict[str, str | Callable[[Any], str]] = {
    "the head says the opposite of whether it is over": "update head set closed = not closed where run = 'ill'",
    "the row in the catalogue is missing": "delete from catalogue where run = 'ill'",
    "the row in the catalogue does not read": "update catalogue set body = '{' where run = 'ill'",
    "the record in the catalogue is a number": "update catalogue set body = 7 where run = 'ill'",
    "the catalogue has another workflow": record_with(workflow="typo"),
    "the catalogue has another title": record_with(title="typo"),
    "the catalogue has other tags": record_with(tags=["typo"]),
    "the catalogue has another parent": record_with(parent="typo"),
    "the catalogue has another reason": record_with(reason="typo"),
    "a summary that is behind has another workflow": record_with(at=2, workflow="typo"),
    "the column of the workflow is another": "update catalogue set workflow = 'typo' where run = 'ill'",
    "the column of the status is another": "update catalogue set status = 'typo' where run = 'ill'",
    "the column of the version has another type": "update catalogue set at = 'seven' where run = 'ill'",
    "the column of the creation has another type": "update catalogue set created = 'today' where run = 'ill'",
    "the table of tags has another one": f"insert into tag (tag, run) values ('typo', {OF_RUN})",
    "a wait is stored that the log does not know": "insert into wait (run, name, kind, due, body) "
    f"values ({OF_RUN}, 'timer:no', 'timer', 1, "
    '\'{"kind":"timer","id":"no","due":1}\')',
    "the rows of the waits are missing": f"delete from wait where run = {OF_RUN}",
    "the rows of the waits do not read": f"update wait set body = '{{' where run = {OF_RUN}",
    "the rows of the waits are due": f"update wait set due = 5 where run = {OF_RUN}",
    "the rows of the waits have another type": f"update wait set due = 'soon', kind = 7 where run = {OF_RUN}",
}
OF_TYPES = [name for name in EDITS if name.endswith(("another type", "is a number"))]
"""A server refuses to store them."""
WITHOUT_WAITS = ("a run that is over", "a run that continued")


ON_A_SERVER = ("a run with two questions", "a run on its second branch")
"""How a run came about does not differ there."""
EDITS_THERE = spot_check(
    [(base, edit) for base in ON_A_SERVER for edit in EDITS if edit not in OF_TYPES], 7, "edits on a server"
)


def edit_of(ward: Any, name: str) -> str:
    edit = EDITS[name]
    return edit if isinstance(edit, str) else edit(ward)


EDITED = [("a run that asks", edit) for edit in EDITS] + share(
    [(base, edit) for base in BASES if base != "a run that asks" for edit in EDITS], 3, "edits of other runs"
)


@pytest.mark.parametrize(("sql_ward", "base", "edit"), on_each(EDITED, EDITS_THERE), indirect=["sql_ward"])
def test_what_was_edited_beside_the_log_is_found_shown_and_written_again(sql_ward: Any, base: str, edit: str) -> None:
    """G2: verify and doctor find it, `--fix` repairs it without an event, and no other run is hidden by it."""
    ward = sql_ward
    if base in WITHOUT_WAITS and edit.startswith("the rows of the waits"):
        return
    BASES[base](ward)
    whole = beside(ward)
    assert (ward.shell("verify", RUN).exit_code, ward.doctor(RUN)["exit"]) == (0, 0)
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack"), run="well"))
    ward.sql(edit_of(ward, edit))
    assert ward.shell("verify", RUN).exit_code == 1
    for arguments in ((RUN,), ("--all",)):
        (shown,) = [each for each in ward.doctor(*arguments)["runs"] if each["run"] == RUN]
        assert "G2" in [each["code"] for each in shown["findings"] if each["standing"] == "repairable"]
    assert "well" in ward.shell("ps", "-a").stdout
    dry = ward.doctor(RUN, "--fix", "--dry-run")
    repair = dry["runs"][0]["repairs"][0]
    assert (repair["code"], repair["needed"], repair["done"], repair["appends"]) == ("G2", True, False, [])
    assert repair["effects"], "what would be written is named"
    assert ward.doctor(RUN, "--fix")["exit"] == 0
    assert beside(ward) == whole
    assert (ward.shell("verify", RUN).exit_code, ward.doctor(RUN)["exit"]) == (0, 0)


def beside(ward: Any) -> Any:
    return [
        ward.rows("select version, digest, epoch, branch, branch_first, closed from head where run = 'ill'"),
        ward.rows("select * from catalogue where run = 'ill'"),
        ward.rows(f"select tag from tag where run = {OF_RUN} order by tag"),
        ward.rows(f"select run, name, kind, due, body from wait where run = {OF_RUN} order by name"),
        ward.rows(f"select count(*) from log where run = {OF_RUN}"),
    ]


@pytest.mark.parametrize("cell", ["head.version", "head.digest", "head is gone"])
def test_a_run_whose_head_is_lost_is_named_by_every_command_and_the_others_are_shown(sql_ward: Any, cell: str) -> None:
    """G3"""
    ward = sql_ward
    if ward.kind == "postgres" and cell == "head.version":
        return  # the column takes no text
    asking(ward)
    if cell == "head is gone":
        ward.sql("delete from head where run = 'ill'")
    else:
        ward.sql(f"update head set {cell.partition('.')[2]} = 'seven' where run = 'ill'")
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack"), run="well"))
    told = ward.doctor()
    (ill,) = [each for each in told["runs"] if each["run"] == RUN]
    assert (told["exit"], told["seen"], [each["code"] for each in ill["findings"]]) == (1, 2, ["G3"])
    assert ward.doctor(RUN)["exit"] == 1
    for command in (("verify", "--all"), ("verify", RUN), ("ps", "-a")):
        assert RUN in ward.shell(*command).stdout
    assert ward.do(ward.complete(RunId("well"))) == LAMP


def test_a_run_that_is_not_over_is_looked_at_whatever_its_status_says(sql_ward: Any) -> None:
    """A3r: the doctor and the sweeper choose runs by the head."""
    ward = sql_ward
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("ship")))
    ward.do(release(ward))
    ward.summary(RUN, status="completed")
    assert [each["findings"][0]["code"] for each in ward.doctor()["runs"]] == ["A3r"]
    report = ward.do(swept(ward))
    assert [(seen.run, seen.reason) for seen in report.runs] == [(RUN, "no task")]


async def swept(ward: Any, *, dry_run: bool = True) -> Any:
    store = ward.open()
    report = await Sweeper(Ledger(store), stale_after=0).sweep(dry_run=dry_run)
    await store.close()
    return report


@pytest.mark.parametrize("name", ["the row in the catalogue does not read", "the row in the catalogue is missing"])
def test_a_run_without_a_summary_is_named_by_the_sweeper_and_the_others_are_swept(sql_ward: Any, name: str) -> None:
    ward = sql_ward
    asking(ward)
    ward.sql(edit_of(ward, name))
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack"), run="well"))
    report = ward.do(swept(ward))
    assert {seen.run: seen.reason for seen in report.runs} == {RUN: "unreadable", "well": "claim expired"}


def test_a_question_that_the_log_does_not_know_takes_no_answer(sql_ward: Any) -> None:
    ward = sql_ward
    asking(ward)
    body = '{"kind":"interaction","id":"typo","detail":""}'
    ward.sql(f"insert into wait (run, name, kind, body) values ({OF_RUN}, 'interaction:typo', 'interaction', '{body}')")
    kept = ward.dump()["log"]
    assert ward.shell("answer", RUN, "--yes", "--interaction", "typo").exit_code == 2
    assert ward.dump()["log"] == kept


@pytest.mark.parametrize("more", [(), ("--interaction", "approve")])
def test_an_answer_to_a_question_whose_wait_is_lost_says_what_repairs_it(sql_ward: Any, more: tuple[str, ...]) -> None:
    ward = sql_ward
    asking(ward)
    ward.sql(f"delete from wait where run = {OF_RUN}")
    refused = ward.shell("answer", RUN, "--yes", *more)
    assert refused.exit_code == 2
    assert "outlast doctor ill --fix" in " ".join(refused.stderr.split())
    assert ward.doctor(RUN, "--fix")["exit"] == 0
    assert ward.shell("answer", RUN, "--yes", *more).exit_code == 0


def test_a_run_that_its_head_calls_over_by_mistake_is_swept_and_goes_on(sql_ward: Any) -> None:
    ward = sql_ward
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack")))
    ward.do(release(ward))
    ward.sql("update head set closed = true")
    for is_dry in (True, False):
        (seen,) = ward.do(swept(ward, dry_run=is_dry)).runs
        assert (seen.reason, seen.outcome) == ("task ended", "handed over")
    assert ward.do(ward.complete(RUN)) == LAMP


NOT_UTF8 = "cast(x'ff61' as text)"
SPOILED = [
    *(f"catalogue.{name}" for name in ("workflow", "status", "parent", "text", "run")),
    *(f"wait.{name}" for name in ("name", "kind", "due")),
    *(
        f"head.{name}"
        for name in ("epoch", "version", "interrupted", "claim_epoch", "worker", "workflow", "fairness_key", "timer")
    ),
    "tag.tag",
    "log.kind",
]


@pytest.mark.parametrize("cell", SPOILED)
def test_a_text_that_is_not_utf8_hides_no_other_run(sqlite_ward: Any, cell: str) -> None:
    ward, (table, _, column) = sqlite_ward, cell.partition(".")
    branched(ward)
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack"), run="well"))
    key = "id" if table in ("head", "catalogue") else "run"
    ready = ", ready = 1" if table == "head" else ""
    value = (1 << 63) - 1 if column == "claim_epoch" else NOT_UTF8
    ward.sql(f"update {table} set {column} = {value}{ready} where {key} = {OF_RUN}")
    for command in (
        ("ps", "-a"),
        ("verify", "--all"),
        ("doctor", "--all"),
        ("doctor",),
        ("sweeper", "--once", "--dry-run"),
    ):
        seen = ward.shell(*command)
        assert seen.exception is None or isinstance(seen.exception, SystemExit), seen.exception
    assert "well" in ward.shell("ps", "-a").stdout
    assert ward.do(ward.complete(RunId("well"))) == LAMP
    ward.shell("doctor", "--all", "--fix")
    for command in (("show", RUN), ("doctor", RUN), ("answer", RUN, "--yes")):
        assert isinstance(ward.shell(*command).exception, SystemExit | None)


def test_a_run_that_has_not_begun_and_that_no_worker_would_start_is_found(sql_ward: Any) -> None:
    ward = sql_ward

    async def start() -> None:
        async with ward.desk() as desk:
            await desk.start(ward.flows.doctor_errand.options(id=RUN), "lamp")

    ward.do(start())
    ward.sql("update head set ready = false")
    assert [seen.reason for seen in ward.do(swept(ward)).runs] == ["no task"]
    assert [each["code"] for each in ward.doctor()["runs"][0]["findings"]] == ["G1"]
    assert ward.doctor(RUN, "--fix")["exit"] == 0
    assert ward.do(ward.complete(RUN)) == LAMP


@pytest.mark.parametrize("due", ["'soon'", "x'00'"])
def test_a_timer_whose_time_has_another_type_does_not_stop_the_claims(
    sqlite_ward: Any, due: str, caplog: pytest.LogCaptureFixture
) -> None:
    ward = sqlite_ward
    asking(ward)
    ward.sql(f"update wait set due = {due} where run = {OF_RUN}")
    ward.do(ward.left_after(ward.flows.doctor_errand, completed("pack"), run="well"))
    with caplog.at_level("ERROR", logger="outlast.services"):
        assert ward.do(ward.complete(RunId("well"))) == LAMP
    assert "failed" not in caplog.text


def test_a_timer_whose_row_does_not_read_stops_no_other(sql_ward: Any, caplog: pytest.LogCaptureFixture) -> None:
    ward = sql_ward

    async def scene() -> None:
        async with ward.doomed() as engine:
            for name in ("ill", "well", "blank"):
                await engine.start(ward.flows.doctor_sleeping.options(id=name), "lamp")
                await until(engine, lambda summary: summary.waiting, RunId(name))

    ward.do(scene())
    ward.sql(f"update wait set body = '{{' where run = {OF_RUN}")
    ward.sql("update catalogue set body = '{' where run = 'blank'")
    with caplog.at_level("ERROR", logger="outlast.services"):
        assert ward.do(later(ward, RunId("well"))) == "lamp fetched"
    assert "run ill, table of waits" in caplog.text
    for run in ("ill", "blank"):
        assert ward.doctor(run, "--fix")["exit"] in (0, 1)
        assert ward.is_sound(RunId(run))


async def later(ward: Any, run: RunId) -> Any:
    """What the run returns, two hours from now."""
    store = ward.open()
    store.skew = 7_200_000_000
    try:
        async with engine_over(store, clock=lambda: system_clock() + store.skew) as engine:
            return await engine.result(run)
    finally:
        await store.close()


def test_a_plain_answer_is_no_fault(sql_ward: Any) -> None:
    """A summary that is behind an answer is healthy: the next worker writes it."""
    ward = sql_ward
    asking_twice(ward)

    async def answer() -> None:
        async with ward.desk() as desk:
            await desk.answer(RUN, True, interaction=(await desk.get(RUN)).waits[0].id)

    ward.do(answer())
    told = ward.doctor(RUN)
    assert told["exit"] == 0
    said = [each["sentence"] for each in told["runs"][0]["findings"] if each["code"] == "G2"]
    assert "the summary has waiting 2, the log 1" in said[0]


# --- the runs that a run depends on ------------------------------------------------------------------------------------


def test_a_child_that_does_not_exist_is_created_by_the_next_worker(sql_ward: Any) -> None:
    """G1"""
    ward = sql_ward
    parent(ward)
    lost = child(ward)
    for table in ("log", "wait"):
        ward.sql(f"delete from {table} where run = (select id from head where run = ?)", lost)
    ward.sql("delete from catalogue where run = ?", lost)
    ward.sql("delete from head where run = ?", lost)
    ward.sql("update head set ready = false where run = 'ill'")
    told = ward.doctor(RUN)
    assert told["exit"] == 1
    assert f"the run waits for its child {lost}, which does not exist" in str(told["runs"])
    assert ward.doctor(RUN, "--fix")["exit"] == 0

    async def go_on() -> Any:
        async with ward.engine() as engine:
            while lost not in [run.run async for run in engine.iter_runs() if run.waiting]:
                await asyncio.sleep(0.005)
            await engine.answer(lost, True)
            return await engine.result(RUN)

    assert ward.do(go_on()) == "lamp fetched (True) packed"


def test_a_parent_that_was_not_told_of_the_end_of_its_child_is_told(sql_ward: Any) -> None:
    """G1"""
    ward = sql_ward
    parent(ward)
    ended = child(ward)

    async def end() -> None:
        """As its worker would have left it, had it died before it told anybody, and its claim been lost."""
        store = ward.open()
        ledger = Ledger(store)
        worker = ledger.new_worker_id()
        await store.enrol(worker, 30.0)
        (claim,) = await store.claim(worker, runs=[ended])
        writer = await ledger.take_over(claim)
        await writer.append(decide.end(writer.state, e.RunCompleted(output=msgspec.Raw(b'"done"'))), release=True)
        await ledger.close()
        await store.close()

    ward.do(end())
    assert f"the run waits for its child {ended}, which has ended" in str(ward.doctor(RUN)["runs"])
    assert ward.doctor(RUN, "--fix")["exit"] == 0
    assert ward.do(ward.complete(RUN)) == "done"


def test_a_successor_that_does_not_exist_is_created(sql_ward: Any) -> None:
    """G1"""
    ward = sql_ward
    continued(ward)
    lost = successor_of(RUN)
    for table in ("log", "wait"):
        ward.sql(f"delete from {table} where run = (select id from head where run = ?)", lost)
    ward.sql("delete from catalogue where run = ?", lost)
    ward.sql("delete from head where run = ?", lost)
    assert f"the run continues as run {lost}, which does not exist" in str(ward.doctor(RUN)["runs"])
    assert ward.doctor(RUN, "--fix")["exit"] == 0
    assert ward.do(ward._answered(lost, True)) == "lamp (True) packed"


@pytest.mark.parametrize(
    "edit",
    [
        "update head set workflow = 'typo' where run = 'ill'",
        "update head set queue = 'typo' where run = 'ill'",
        "update head set priority = 7 where run = 'ill'",
        "update head set fairness_key = 'typo' where run = 'ill'",
        "update head set timer = 5 where run = 'ill'",
        "update catalogue set held = 1 where run = 'ill'",
        f"insert into attribute (name, kind, value, run, id) values ('typo', 1, 1, 'ill', {OF_RUN})",
    ],
)
def test_columns_by_which_a_run_is_claimed_or_found_are_compared_and_written_again(sqlite_ward: Any, edit: str) -> None:
    """G2"""
    ward = sqlite_ward
    over(ward)
    assert ward.shell("verify", RUN).exit_code == 0
    tables = ("head", "catalogue", "attribute")
    whole = [ward.rows(f"select * from {table}") for table in tables]
    ward.sql(edit)
    assert [ward.rows(f"select * from {table}") for table in tables] != whole
    assert ward.shell("verify", RUN).exit_code == 1
    assert ward.doctor(RUN, "--fix")["exit"] == 0
    assert [ward.rows(f"select * from {table}") for table in tables] == whole
    assert ward.shell("verify", RUN).exit_code == 0
