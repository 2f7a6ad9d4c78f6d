"""A ward: one store, in memory or SQLite, on which engines live and die, and in which runs are left in any state.

Where a state can arise it is made by an engine that is killed. Where it cannot, or only between two calls to the store, the
log of a run that an engine has really made is written again up to an event, by a worker that is not there any more.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import apsw
import asyncpg
import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from outlast.address import server_at
from outlast.cli.app import app
from outlast.client import Engine, Finding
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.ledger import Ledger
from outlast.ledger.ledger import system_clock
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import Store
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.postgres import PostgresStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.faults import Died, Fault, Faults, faulty
from outlast.testing.processes import engine_over

PATIENCE = 60.0
T = TypeVar("T")
TABLES = {
    "sqlite": ("head", "log", "catalogue", "wait", "tag", "attribute", "slot"),
    "postgres": ("head", "log", "catalogue", "wait", "claim", "tag"),
}


def _load(name: str) -> ModuleType:
    """A module beside this file, once: tests are no package."""
    full = f"doctor_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]


class Ward:
    """One store, and everything that is done to it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.file = folder / "runs.db"
        self.address = str(self.file)
        self.memory = Memory()
        self.flows = _load("patients")
        self.did: list[str] = self.flows.DID

    # --- doors

    def do(self, work: Awaitable[T]) -> T:
        """Let something happen, on a loop of its own."""

        async def whole() -> T:
            async with asyncio.timeout(PATIENCE):
                return await work

        return asyncio.run(whole())

    def open(self) -> Store:
        if self.kind == "memory":
            return MemoryStore(self.memory)
        return SqliteStore(self.file, durability="relaxed", commit="inline")

    @asynccontextmanager
    async def desk(self, fault: Fault | None = None) -> AsyncIterator[Engine]:
        """A desk in a process of its own: it advances nothing."""
        inner = self.open()
        store, faults = faulty(inner, fault)
        ledger = Ledger(store)
        client = Engine(ledger)
        self.faults = faults
        try:
            yield client
        finally:
            with suppress(Died):
                await client._leave()
            with suppress(Died):
                await ledger.close()
            await inner.close()
            if faults.is_dead:
                self.bury()

    @asynccontextmanager
    async def engine(self, **options: Any) -> AsyncIterator[Engine]:
        store = self.open()
        try:
            async with engine_over(store, **options) as client:
                yield client
        finally:
            await store.close()

    @asynccontextmanager
    async def doomed(self, **options: Any) -> AsyncIterator[Engine]:
        """An engine that is killed at the end."""
        inner = self.open()
        store, faults = faulty(inner)
        opening = engine_over(store, **options)
        yield await opening.__aenter__()
        await self._kill(opening, inner, faults)

    async def _kill(self, opening: Any, inner: Store, faults: Faults) -> None:
        faults.is_dead = True
        with suppress(Died):
            await opening.__aexit__(None, None, None)
        await inner.close()
        self.bury()

    def bury(self) -> None:
        """That the process is dead is known: of one that has files open, the system knows it."""
        self.memory.listeners.clear()
        self.memory.workers.clear()

    # --- patients

    async def killed_in(self, node: str, workflow: Any, *args: Any, run: str = "ill") -> RunId:
        """A run whose engine was killed while it was in this node."""
        self.flows.SLOW.add(node)
        async with self.doomed() as engine:
            await engine.start(workflow.options(id=run), *args)
            while node not in self.did:
                await asyncio.sleep(0.002)
        self.flows.SLOW.discard(node)
        return RunId(run)

    async def told(self, workflow: Any, *args: Any, answer: Any = None) -> list[e.AnyEvent]:
        """The events of an undisturbed run, made elsewhere."""
        before = len(self.did)
        async with engine_over(MemoryStore()) as engine:
            handle = await engine.start(workflow, *args)
            async for entry in handle.watch():
                if isinstance(entry.event, e.InteractionRequested):
                    await handle.answer(answer)
            del self.did[before:]
            return [entry.event async for entry in engine.events(handle.run)]

    async def left_after(
        self,
        workflow: Any,
        last: type[e.Event] | Callable[[Any], bool],
        *more: e.AnyEvent,
        run: str = "ill",
        args: Sequence[Any] = ("lamp",),
        answer: Any = True,
        clock: Callable[[], int] = system_clock,
        **created: Any,
    ) -> RunId:
        """A run as its engine would have left it, had it died just after the last such event. `more` are said after it."""
        events = await self.told(workflow, *args, answer=answer)
        is_last = (lambda event: isinstance(event, last)) if isinstance(last, type) else last
        place = max(place for place, event in enumerate(events) if is_last(event))
        kept = [event for event in events[1 : place + 1] if not isinstance(event, e.RunTakenOver)]
        events = [replace(events[0], **created), *kept, *more]
        store = self.open()
        ledger = Ledger(store, clock=clock)
        if not created:
            await store.blobs.put(workflow._document)
        writer = await ledger.create(RunId(run), events[:1], ledger.new_worker_id())
        for event in events[1:]:
            await writer.append([event])
        await ledger.close()
        await store.close()
        return RunId(run)

    async def complete(self, run: RunId) -> Any:
        """Let a worker go on with it, to its end."""
        async with self.engine() as engine:
            return await engine.result(run)

    # --- damage

    def summary(self, run: RunId, **changes: Any) -> None:
        """Edit a run's summary: it becomes one of the log's own version unless another is said."""

        async def edit() -> None:
            store = self.open()
            head, old = await store.head(run), await store.summary(run)
            assert head is not None
            assert old is not None
            new = replace(old, **{"at": head.version, **changes})
            if self.kind == "memory":
                self.memory.summaries[run] = new
            await store.close()
            if self.kind != "memory":
                self._write_summary(new)

        self.do(edit())

    def _write_summary(self, new: RunSummary) -> None:
        body = msgspec.json.encode(new)
        self.sql(
            "update catalogue set at = ?, status = ?, body = ? where run = ?", new.at, str(new.status), body, new.run
        )

    def json_with(self, **changes: Any) -> str:
        """SQL for the record of a catalogue row with other members."""
        members = "".join(f", '$.{name}', json('{json.dumps(value)}')" for name, value in changes.items())
        return f"cast(json_set(cast(body as text){members}) as blob)"

    def sql(self, statement: str, *values: Any) -> None:
        """Write to the file behind Outlast's back."""
        connection = apsw.Connection(str(self.file))
        try:
            connection.execute(statement, values)
            assert connection.changes(), "nothing was damaged"
        finally:
            connection.close()

    def rows(self, statement: str, *values: Any) -> list[Any]:
        connection = apsw.Connection(str(self.file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute(statement, values))
        finally:
            connection.close()

    # --- looking

    def dump(self) -> Any:
        """Everything that is stored and is a fact, byte by byte."""
        if self.kind != "memory":
            return {table: self.rows(f"select * from {table} order by 1, 2") for table in TABLES[self.kind]}
        memory = self.memory
        return [
            dict(memory.heads),
            {run: [_bytes(record) for record in log] for run, log in memory.logs.items()},
            dict(memory.summaries),
            {run: dict(waits) for run, waits in memory.waits.items()},
            dict(memory.claims),
        ]

    def events(self, run: RunId, *, everything: bool = True) -> list[Entry]:
        async def read() -> list[Entry]:
            async with self.desk() as desk:
                return [entry async for entry in desk.events(run, everything=everything)]

        return self.do(read())

    def events_upto(self, run: RunId, last: int) -> list[Entry]:
        """The first events of its current lineage."""
        return [entry for entry in self.events(run, everything=False) if entry.seq <= last]

    def names(self, run: RunId, seqs: Sequence[int]) -> list[str]:
        """The types of the events at these places."""
        by_seq = {entry.seq: type(entry.event).__name__ for entry in self.events(run)}
        return [by_seq[seq] for seq in seqs]

    def status(self, run: RunId) -> RunStatus:
        async def read() -> RunStatus:
            async with self.desk() as desk:
                return (await desk.get(run)).status

        return self.do(read())

    def diagnose(self, run: RunId) -> tuple[Finding, ...]:
        async def look() -> tuple[Finding, ...]:
            async with self.desk() as desk:
                return (await desk.diagnose(run)).findings

        return self.do(look())

    def recovery_plan(self, run: RunId) -> list[e.AnyEvent]:
        """What a dry run would show for the first remedy."""

        async def look() -> list[e.AnyEvent]:
            async with self.desk() as desk:
                remedies = (await desk.diagnose(run)).remedies
                return await desk.diagnostics.preview_recovery(run, remedies[0]) if remedies else []

        return self.do(look())

    def recover(self, run: RunId) -> list[Finding]:
        async def heal() -> list[Finding]:
            async with self.desk() as desk:
                return await desk.recover(run)

        return self.do(heal())

    def is_sound(self, run: RunId) -> bool:
        async def look() -> bool:
            async with self.desk() as desk:
                verification = await desk.verify(run)
                assert not verification.violations, verification.violations
                return True

        return self.do(look())

    def shell(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--store", self.address], prog_name="outlast")

    def doctor(self, *arguments: str) -> Any:
        """What `outlast doctor` says, as data, with its exit code."""
        result = self.shell("doctor", *arguments, "-o", "json")
        assert result.stdout, (result.exit_code, result.stderr, result.exception)
        return {**json.loads(result.stdout), "exit": result.exit_code}

    # --- the whole treatment

    def treat(self, run: RunId, case: Case) -> None:
        """Diagnose, plan, repair, repair again, go on: each of them is as it has to be, and a plan changes nothing."""
        before, events = self.dump(), self.events(run)
        found = next(finding for finding in self.diagnose(run) if finding.standing != "consistent")
        assert (found.code, self.names(run, found.events)) == (case.code, list(case.proof))
        assert found.actions
        planned = self.recovery_plan(run)
        assert [type(event).__name__ for event in planned if not isinstance(event, e.RunTakenOver)] == list(case.says)
        if self.kind == "sqlite":
            self._shown(run, case)
        assert self.dump() == before, "to look at it has changed it"
        self._repaired(run, case, planned, events)
        healed = self.dump()
        assert self.recover(run) == []
        if self.kind == "sqlite":
            assert self.doctor(run, "--fix")["runs"][0]["repairs"] == []
        assert self.dump() == healed, "a second repair has changed something"
        assert self.is_sound(run)
        self._goes_on(run, case)
        assert self.events(run)[: len(events)] == events
        assert self.is_sound(run)

    def _shown(self, run: RunId, case: Case) -> None:
        """What the command says of it."""
        file = self.file.read_bytes()
        (shown,) = (told := self.doctor(run))["runs"]
        assert (told["exit"], shown["sound"], shown["repairs"]) == (1, False, [])
        assert next(each["code"] for each in shown["findings"] if each["standing"] != "consistent") == case.code
        (dry,) = self.doctor(run, "--fix", "--dry-run")["runs"]
        said = [event["type"] for event in dry["repairs"][0]["appends"]]
        assert dry["repairs"][0]["code"] == case.code
        assert [name for name in said if name != "RunTakenOver"] == list(case.says)
        assert self.file.read_bytes() == file

    def _repaired(self, run: RunId, case: Case, planned: list[e.AnyEvent], events: list[Entry]) -> None:
        if self.kind == "sqlite":
            (shown,) = (told := self.doctor(run, "--fix"))["runs"]
            assert (told["exit"], shown["sound"], [each["code"] for each in shown["repairs"]]) == (0, True, [case.code])
        else:
            assert [finding.code for finding in self.recover(run)] == [case.code]
        assert all(finding.standing == "consistent" for finding in self.diagnose(run))
        appended = [entry.event for entry in self.events(run)[len(events) :]]
        said = [event for event in planned if not isinstance(event, e.RunTakenOver)]
        assert appended[len(appended) - len(said) :] == said
        if not case.is_silent:
            assert isinstance(appended[0], e.RunTakenOver)
        recovered = [event for event in appended if isinstance(event, e.RunRecovered)]
        assert [event.code for event in recovered] == [case.code] * ("RunRecovered" in case.says)
        for event in recovered:
            assert set(event.evidence) <= {entry.seq for entry in events}

    def _goes_on(self, run: RunId, case: Case) -> None:
        self.did.clear()
        if case.answer is not None:
            assert self.do(self._answered(run, case.answer)) == case.result
        elif isinstance(case.result, type):
            with pytest.raises(case.result):
                self.do(self.complete(run))
        else:
            assert self.do(self.complete(run)) == case.result
        assert self.did == list(case.did)

    async def _answered(self, run: RunId, answer: Any) -> Any:
        async with self.engine() as engine:
            while not (await engine.get(run)).waits:
                await asyncio.sleep(0.005)
            await engine.answer(run, answer)
            return await engine.result(run)


class PostgresWard(Ward):
    """The same on a real server. Statements are written as for SQLite."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__("postgres", folder)
        self.address = url

    def open(self) -> Store:
        return cast("Store", PostgresStore(self.address, durability="relaxed"))

    def bury(self) -> None:
        self._apart("delete from worker", ())

    def json_with(self, **changes: Any) -> str:
        return f"convert_to((convert_from(body, 'UTF8')::jsonb || '{json.dumps(changes)}')::text, 'UTF8')"

    def sql(self, statement: str, *values: Any) -> None:
        assert self._apart(statement, values)[0] != "0", "nothing was damaged"

    def rows(self, statement: str, *values: Any) -> list[Any]:
        rows: list[Any] = self._apart(statement, values)[1]
        return rows

    def _apart(self, statement: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """Carry out a statement on a thread of its own, for this one may have a loop that runs: how many rows it touched,
        and what it found."""
        places = itertools.count(1)
        text = re.sub(r"\?", lambda _: f"${next(places)}", statement)

        async def work() -> tuple[str, list[Any]]:
            server = server_at(self.address)
            assert server is not None
            connection = await asyncpg.connect(server.dsn, server_settings={"search_path": server.schema})
            try:
                prepared = await connection.prepare(text)
                found = [tuple(row) for row in await prepared.fetch(*values)]
                return prepared.get_statusmsg().rpartition(" ")[2], found
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, work()).result()


class Case(NamedTuple):
    """A state that can be repaired: how it is made, its code, the types of the events that prove it, what repairing says
    besides the takeover, what the run returns or raises when a worker goes on, and which nodes that worker executes."""

    make: Callable[[Ward], RunId]
    code: str
    proof: Sequence[str]
    says: Sequence[str]
    result: Any
    did: Sequence[str]
    answer: Any = None
    is_silent: bool = False
    """Nothing is appended: only the summary was wrong."""


def _bytes(record: Any) -> tuple[Any, ...]:
    return tuple(bytes(value) if isinstance(value, bytes) else value for value in msgspec.structs.astuple(record))


@pytest.fixture
def flows() -> ModuleType:
    return _load("patients")


@pytest.fixture(autouse=True)
def _nothing_done(flows: ModuleType, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    flows.DID.clear()
    flows.SLOW.clear()
    with caplog.at_level("CRITICAL", logger="outlast.engine"):
        yield


@pytest.fixture(params=["memory", "sqlite"])
def ward(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ward:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_STORE", raising=False)
    return Ward(request.param, tmp_path)


@pytest.fixture
def sqlite_ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ward:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_STORE", raising=False)
    return Ward("sqlite", tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def sql_ward(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ward:
    """One whose rows can be edited."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_STORE", raising=False)
    if request.param == "postgres":
        return PostgresWard(request.getfixturevalue("empty_postgres_url"), tmp_path)
    return Ward("sqlite", tmp_path)


@pytest.fixture
def memory_ward(tmp_path: Path) -> Ward:
    return Ward("memory", tmp_path)


@pytest.fixture
def case() -> type[Case]:
    return Case
