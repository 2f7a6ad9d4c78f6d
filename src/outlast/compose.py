"""Composition: build store, ledger, worker, services and client from the settings. The only module that imports all the
others.

The driver of a store is imported when a store of its kind is opened, never before.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast

from outlast.address import BucketAddress, blobs_beside, bucket_at, file_at, place_of, real_file, server_at
from outlast.client import BlockingEngine, Engine
from outlast.client.bulk import acting
from outlast.definition.durations import Seconds, seconds_or_none
from outlast.engine.claimer import Claimer
from outlast.engine.evictor import Evictor
from outlast.engine.heartbeat import Heartbeat
from outlast.engine.supervise import supervise
from outlast.engine.watchdog import watched
from outlast.engine.worker import Worker
from outlast.errors import InvalidInput, OutlastError, StoreUnusable
from outlast.execution.executors import Executor
from outlast.functions.decorators import Starter, Workflow, open_engine
from outlast.functions.workflow_import import add_script_folder, load_apps
from outlast.ledger import Ledger
from outlast.services import Pruner, Sweeper
from outlast.services.tracing import tracing
from outlast.settings import Durability, Settings, read_settings
from outlast.store import Store
from outlast.values.tracebacks import folded

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_KEY = 64
PYTHONS_THRESHOLD = (700, 10, 10)
CALM_THRESHOLD = (150_000, 20, 20)


def default_store(given: str | None = None) -> str:
    """The address of the store: the one `given`, else the one in the settings, else .outlast/runs.db of the project."""
    return read_settings({"store": given}).store


def open_settled(settings: Settings, *, readonly: bool = False) -> Store:
    """Open the store of the settings."""
    return open_store(settings.store, blobs=settings.blobs, durability=settings.durability, readonly=readonly)


def open_store(
    address: str | Path, *, blobs: str | Path = "", durability: Durability = "full", readonly: bool = False
) -> Store:
    """Open the store at an address, with its blobs beside it unless `blobs` names a folder. It is created if it does not
    exist, except with `readonly`. A server is first contacted when the store is used. It is encrypted if the environment
    has keys."""
    from outlast.stores.encrypted import EncryptedStore, configured_keys

    store, keys = _open_plain(address, blobs, durability, readonly), configured_keys()
    return store if keys is None else cast("Store", EncryptedStore(store, keys))


def _open_plain(address: str | Path, blobs: str | Path, durability: Durability, readonly: bool) -> Store:
    if server_at(address) is not None:
        return _open_postgres(str(address), blobs, durability, readonly)
    bucket = bucket_at(address)
    if bucket is not None:
        return _open_objects(bucket, blobs, readonly)
    path = file_at(address)
    if path is None:
        from outlast.stores.memory import MemoryStore

        return MemoryStore()
    return _open_sqlite(path, blobs, durability, readonly)


def _folder(blobs: str | Path) -> Path | None:
    return Path(os.path.expanduser(blobs)).absolute() if blobs else None


def _open_objects(at: BucketAddress, blobs: str | Path, readonly: bool) -> Store:
    from outlast.stores.objects import ObjectStore
    from outlast.stores.objects.opening import open_bucket

    return ObjectStore(open_bucket(at, readonly=readonly), blobs=_folder(blobs), readonly=readonly)


def _open_sqlite(path: Path, blobs: str | Path, durability: Durability, readonly: bool) -> Store:
    from outlast.stores.sqlite import SqliteStore

    try:
        place = path.absolute()
        if place.is_dir():
            raise StoreUnusable(f"{place} is a folder: name a file in it, for example {place / 'runs.db'}")
        if readonly and not place.exists():
            raise StoreUnusable(f"there is no store at {place}")
        if not readonly:
            place.parent.mkdir(parents=True, exist_ok=True)
        file = real_file(place)
        if not file.parent.is_dir():  # perhaps a disk that is not mounted: create nothing
            raise StoreUnusable(f"{place} links to {file}, and the folder {file.parent} does not exist")
        return SqliteStore(file, blobs=_folder(blobs) or blobs_beside(file), durability=durability, readonly=readonly)
    except (OSError, ValueError) as error:
        raise StoreUnusable(f"could not open {str(path)!r}: {error}") from error


def _open_postgres(url: str, blobs: str | Path, durability: Durability, readonly: bool) -> Store:
    from outlast.stores.postgres import PostgresStore

    return PostgresStore(url, blobs=_folder(blobs), durability=durability, readonly=readonly)


@asynccontextmanager
async def open_desk(
    given: Settings | str | None = None, *, signing_key: bytes = b"", readonly: bool = False
) -> AsyncIterator[Engine]:
    """An engine without a worker over the store of the settings or at an address, closed at the end. It advances no runs."""
    settings = given if isinstance(given, Settings) else read_settings({"store": given})
    async with _open(settings, signing_key=signing_key, worker=False, readonly=readonly) as client:
        yield client


class Opening:
    """An engine that is not open yet: `async with` opens an `Engine`, `with` a `BlockingEngine`."""

    def __init__(self, open: Callable[[], AbstractAsyncContextManager[Engine]]) -> None:
        self._open = open
        self._entered: AbstractAsyncContextManager[Engine] | None = None
        self._blocking: BlockingEngine | None = None
        self._outer: Starter | None = None

    async def __aenter__(self) -> Engine:
        self._must_be_closed()
        self._entered = self._open()
        try:
            engine = await self._entered.__aenter__()
        except BaseException:
            self._entered = None
            raise
        self._outer = open_engine.get()
        open_engine.set(engine)
        return engine

    async def __aexit__(self, *error: Any) -> None:
        entered, self._entered = self._entered, None
        open_engine.set(self._outer)
        if entered is not None:
            await entered.__aexit__(*error)

    def __enter__(self) -> BlockingEngine:
        self._must_be_closed()
        self._blocking = BlockingEngine(self._open())
        return self._blocking

    def __exit__(self, *_: object) -> None:
        blocking, self._blocking = self._blocking, None
        if blocking is not None:
            blocking.close()

    def _must_be_closed(self) -> None:
        if self._entered is not None or self._blocking is not None:
            raise InvalidInput("this engine is already open: use it, or open() another one")


def open(
    store: str | Path | None = None,
    *,
    worker: bool = True,
    take_over_others: bool = True,
    signing_key: bytes = b"",
    apps: Iterable[str] | None = None,
    claim: Seconds | None = None,
    concurrency: int | None = None,
    threads: int | None = None,
    processes: int | None = None,
    durability: Durability | None = None,
    on_restart: Literal["resume", "hold"] | None = None,
    unawaited: Literal["fail", "warn"] | None = None,
    capture_stdout: bool | None = None,
    grace: Seconds | None = None,
    queues: Iterable[str] | None = None,
    queue_limits: Mapping[str, int] | None = None,
    dask: str | None = None,
) -> Opening:
    """An engine over a store: `async with open("runs.db") as engine:`, or `with` in code that does not await.

    While it is open it advances the runs of all workflows that this process knows, including those of other processes that
    have ended. With `take_over_others=False` it advances only the runs that it starts or resumes, and keeps those that wait
    in memory. With `worker=False` it advances none. `signing_key` makes the log tamper-evident. Other options default to the
    settings."""
    given = {
        "store": None if store is None else str(store),
        "apps": None if apps is None else tuple(apps),
        "claim": seconds_or_none(claim, "claim"),
        "concurrency": concurrency,
        "threads": threads,
        "processes": processes,
        "durability": durability,
        "on_restart": on_restart,
        "unawaited": unawaited,
        "capture_stdout": capture_stdout,
        "grace": seconds_or_none(grace, "grace"),
        "queues": None if queues is None else tuple(queues),
        "queue_limits": None if queue_limits is None else dict(queue_limits),
        "dask": dask,
    }
    return opening(read_settings(given), signing_key=signing_key, worker=worker, take_over_others=take_over_others)


def opening(
    settings: Settings, *, signing_key: bytes = b"", worker: bool = True, take_over_others: bool = True
) -> Opening:
    """An engine over the store of the settings."""
    return Opening(partial(_open, settings, signing_key=signing_key, worker=worker, take_over_others=take_over_others))


def open_blocking(store: str | Path | None = None, *, worker: bool = True, signing_key: bytes = b"") -> BlockingEngine:
    """An engine for notebooks and prompts: a `BlockingEngine`, open at once. Call its `close()` at the end."""
    return open(store, worker=worker, signing_key=signing_key).__enter__()


def run(workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a workflow to its end on the project's own store, and return its result. Other runs are not advanced."""
    __tracebackhide__ = True
    try:
        with open(take_over_others=False) as engine:
            return engine.start(workflow, *args, **kwargs).result()
    except Exception as error:
        raise folded(error)  # noqa: B904 - it is the same error


@asynccontextmanager
async def _open(
    settings: Settings,
    *,
    signing_key: bytes = b"",
    worker: bool = True,
    take_over_others: bool = True,
    readonly: bool = False,
) -> AsyncIterator[Engine]:
    async with AsyncExitStack() as open_now:
        store = open_settled(settings, readonly=readonly)
        open_now.push_async_callback(store.close)
        ledger = Ledger(store, key=signing_key)
        open_now.push_async_callback(ledger.close)
        await _check_keys(store, readonly=readonly)
        await open_now.enter_async_context(tracing(ledger))
        worker_here = None
        if worker:
            add_script_folder(str(settings.root.resolve()))
            load_apps(settings.apps, str(settings.root) if settings.apps else "")
            worker_here = await open_now.enter_async_context(
                working(ledger, settings, take_over_others=take_over_others)
            )
        client = Engine(
            ledger, worker_here, root=str(settings.root), apps=settings.apps, hold=settings.on_restart == "hold"
        )
        open_now.push_async_callback(client._leave)
        yield client


async def _check_keys(store: Store, *, readonly: bool) -> None:
    from outlast.stores.encrypted import check_keys

    await check_keys(store, readonly=readonly)


@asynccontextmanager
async def open_both(
    source: Settings, target: Settings, *, signing_key: bytes = b""
) -> AsyncIterator[tuple[Engine, Engine, tuple[Store, Store]]]:
    """Two stores and an engine for each, to copy runs from one to the other. The first must exist."""
    if place_of(source.store) == place_of(target.store):
        raise InvalidInput(f"both addresses name the same store, {place_of(source.store)}")
    async with AsyncExitStack() as open_now:
        clients, stores = list[Engine](), list[Store]()
        await open_settled(source, readonly=True).close()
        for settings in (source, target):
            store = open_settled(settings)
            open_now.push_async_callback(store.close)
            ledger = Ledger(store, key=signing_key)
            open_now.push_async_callback(ledger.close)
            client = Engine(ledger)
            open_now.push_async_callback(client._leave)
            clients.append(client)
            stores.append(store)
        yield clients[0], clients[1], (stores[0], stores[1])


@asynccontextmanager
async def working(
    ledger: Ledger, settings: Settings, *, take_over_others: bool = True, reports_start: bool = True
) -> AsyncIterator[Worker]:
    """A worker with its services, for as long as the engine is open."""
    from outlast.stores.encrypted import EncryptedStore

    if settings.dask and isinstance(ledger.store, EncryptedStore):
        raise InvalidInput("dask cannot be used with an encrypted store: its machines read blobs without the keys")
    clusters = {"dask": partial(_open_dask, settings, ledger.store)} if settings.dask else {}
    desk = Engine(ledger, root=str(settings.root), apps=settings.apps)
    with acting(desk):
        worker = Worker(ledger, settings, takes_over_others=take_over_others, clusters=clusters)
    await worker.lease.begin()
    worker.listen()
    end_news = ledger.listen(worker.on_runs_changed)
    calm = _calm_collector()
    services = {
        "claimer": Claimer(worker, reports_start=reports_start).run,
        "heartbeat": Heartbeat(worker).run,
        "sweeper": Sweeper(ledger, hold=settings.on_restart == "hold").run,
        "pruner": Pruner(ledger.store).run,
    }
    if take_over_others:  # otherwise waiting runs stay in memory, with their timers
        services["evictor"] = Evictor(worker).run
    tasks = [
        asyncio.create_task(supervise(name, service), name=f"outlast-{name}") for name, service in services.items()
    ]
    try:
        with watched(worker):
            yield worker
    finally:
        end_news()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await worker.close()
        await desk._leave()
        calm()
        if not worker.takeovers.has_unfinished_completions:
            with suppress(OutlastError):  # its claims expire
                await ledger.store.retire(worker.id)


def _open_dask(settings: Settings, store: Store) -> Executor:
    from outlast.integrations.dask import open_cluster

    return open_cluster(settings.dask, shelf=_shelf(settings), has=store.blobs.has)


def _shelf(settings: Settings) -> str:
    """The place where the machines of a cluster can find the blobs: a shared folder, or a bucket. The address of a server
    is not sent, because it may contain a password."""
    if bucket_at(settings.store) is not None and not settings.blobs:
        return settings.store
    path = file_at(settings.store)
    if not settings.blobs and path is None:
        return ""
    folder = (
        Path(os.path.expanduser(settings.blobs)) if path is None or settings.blobs else blobs_beside(real_file(path))
    )
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)  # a missing folder counts as one of another machine
    return str(folder.absolute())


def _calm_collector() -> Callable[[], None]:
    """Let the garbage collector run less often while runs are advanced, unless the program has set it. Thousands of runs
    are alive at once and leave no reference cycles; scanning them all again and again took a third of the time."""
    before = gc.get_threshold()
    if before != PYTHONS_THRESHOLD:
        return lambda: None
    gc.set_threshold(*CALM_THRESHOLD)
    return lambda: gc.set_threshold(*before)


def read_key(path: Path) -> bytes:
    """The key in a file: all of its 1 to 64 bytes."""
    try:
        key = path.read_bytes()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the key file {str(path)!r} cannot be read: {error}") from error
    if not 1 <= len(key) <= LONGEST_KEY:
        raise InvalidInput(f"the key file {path} has {len(key)} bytes: a key file must have 1 to {LONGEST_KEY} bytes")
    return key
