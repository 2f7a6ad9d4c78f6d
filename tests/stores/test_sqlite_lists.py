"""Lists of runs in an SQLite file: every way of reading them finds the same runs, and none reads all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from outlast.history.events import Moment
from outlast.history.ids import RunId
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import AttributeFilter, Head, RunFilter
from outlast.stores.shared import matches, place
from outlast.stores.sqlite import SqliteStore, searching
from outlast.testing.contract.samples import begin, follow, summary, tombstone

WORDS = ("pack", "ship", 'say "hi"', "straße", "ΣΊΣΥΦΟΣ", "a%b_c", "x" * 30, "日本語の", "it's", "AND", "near(", "-")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def use(path: Path, act: Callable[[SqliteStore], Awaitable[Any]]) -> Any:
    async def used() -> Any:
        store = SqliteStore(path, durability="relaxed")
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(used())


def samples(random: Random, number: int) -> Iterator[RunSummary]:
    statuses = list(RunStatus)
    for i in range(number):
        values = {"n": random.choice([1, 2.5, -3, 1 << 70]), "t": random.choice(["a", "b"]), "m": Moment(i % 5)}
        yield summary(
            RunId(f"{random.choice('abc')}{random.randrange(1000):03}-{i}"),
            status=random.choice(statuses),
            workflow=random.choice(["v", "w"]),
            created=1000 + i // 3,
            title=" ".join(random.choice(WORDS) for _ in range(3)),
            tags=tuple(random.sample(["eu", "us"], random.randrange(3))),
            parent=random.choice(["", "", "p"]),
            queue=random.choice(["", "q"]),
            held=random.random() < 0.2,
            attributes={name: value for name, value in values.items() if random.random() < 0.7},
        )


def queries(random: Random) -> Iterator[RunFilter]:
    parts: list[Callable[[], dict[str, Any]]] = [
        lambda: {"text": random.choice([*WORDS, "ack sh", "SS", "σισυφοσ", "xxx", "a", "no such text"])},
        lambda: {"prefix": random.choice(["a", "b0", "c99", "d"])},
        lambda: {"workflow": random.choice(["v", "none"])},
        lambda: {"statuses": tuple(random.sample(list(RunStatus), random.randrange(1, 4)))},
        lambda: {"tags": random.choice([("eu",), ("eu", "us")])},
        lambda: {"queue": "q"},
        lambda: {"held": random.random() < 0.5},
        lambda: {"parent": "p"},
        lambda: {"roots": True},
        lambda: {"created_from": 1010, "created_until": 1100},
        lambda: {
            "attributes": (AttributeFilter("n", random.choice(["<", "=", ">="]), random.choice([1, 2, 1 << 70])),)
        },
        lambda: {"attributes": (AttributeFilter("t", "=", "a"), AttributeFilter("m", ">", Moment(2)))},
        lambda: {"order": random.choice(["n", "-n", "t", "-m", "none"])},
    ]
    while True:
        chosen = [part() for part in random.sample(parts, random.randrange(1, 4))]
        yield RunFilter(
            limit=random.choice([1, 7, 1000]), **{name: value for each in chosen for name, value in each.items()}
        )


@pytest.mark.parametrize("few", [0, 5, 3000])
@pytest.mark.parametrize("indexed", [True, False])
def test_every_way_of_reading_a_list_finds_the_same_runs(
    path: Path, few: int, indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7: whether few runs are read and sorted or many in their order, and whether or not their texts are indexed"""
    monkeypatch.setattr(searching, "FEW", few)
    random = Random(few)
    stored = list(samples(random, 420 if indexed else 150))

    async def scene(store: SqliteStore) -> None:
        await store.append([begin(each.run, summary=each) for each in stored])
        if indexed:
            index(path)
        for query, _ in zip(queries(random), range(150), strict=False):
            right = sorted(
                (each for each in stored if matches(each, query)),
                key=lambda each: place(each, query.order),
                reverse=not query.order or query.order.startswith("-"),
            )
            found, after = list[RunSummary](), ""
            for _ in count():
                page = await store.search(_after(query, after))
                found += page
                after = page.next
                if not after or len(found) > 2 * query.limit:
                    break
            assert [each.run for each in found] == [each.run for each in right[: len(found)]], query
            assert after or len(found) == len(right), query

    use(path, scene)


def _after(query: RunFilter, after: str) -> RunFilter:
    return RunFilter(**{**{name: getattr(query, name) for name in query.__struct_fields__}, "after": after})


def index(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        while searching.are_texts_new(connection):
            searching.index_texts(connection)
        assert connection.execute("select count(*) from run_text_docsize").get


def test_a_text_that_changed_after_it_was_indexed_is_found_as_it_is(path: Path) -> None:
    """S7: by its new text alone, before and after it is indexed again"""

    async def found(store: SqliteStore, text: str) -> list[str]:
        return sorted(each.run for each in await store.search(RunFilter(text=text, limit=1000)))

    async def scene(store: SqliteStore) -> None:
        names = [RunId(f"run-{i:03}") for i in range(450)]
        await store.append([begin(run, summary=summary(run, title=f"old {run}")) for run in names])
        index(path)
        changed = names[:230]
        heads: list[Head] = [head for run in changed if (head := await store.head(run)) is not None]
        await store.append([follow(head, summary=summary(head.run, 2, title="renamed")) for head in heads])
        assert await store.delete(tombstone(names[-1]), 1)
        assert await store.correct(summary(names[-2], 1, title="corrected"), 1)
        for _ in range(2):
            assert await found(store, "renamed") == changed
            assert await found(store, "corrected") == [names[-2]]
            assert await found(store, "old run-") == names[230:-2]
            index(path)

    use(path, scene)


def test_texts_are_indexed_when_many_are_new_and_not_by_appends(path: Path) -> None:
    def indexed() -> int:
        with closing(apsw.Connection(str(path))) as connection:
            return int(connection.execute("select count(*) from run_text_docsize").get)

    def fill(first: int, number: int) -> None:
        names = [RunId(f"run-{i:03}") for i in range(first, first + number)]

        async def append(store: SqliteStore) -> None:
            await store.append([begin(run, summary=summary(run)) for run in names])
            counts.append(indexed())

        use(path, append)
        counts.append(indexed())

    counts: list[int] = []
    fill(0, searching.INDEXED_TOGETHER - 1)
    fill(500, 1)
    assert counts == [0, 0, 0, searching.INDEXED_TOGETHER]


@pytest.mark.parametrize(
    "query",
    [
        RunFilter(limit=20),
        RunFilter(limit=20, prefix="run-0001"),
        RunFilter(limit=20, workflow="v", statuses=(RunStatus.FAILED,)),
        RunFilter(limit=20, workflow="v"),
        RunFilter(limit=20, statuses=(RunStatus.FAILED, RunStatus.WAITING)),
        RunFilter(limit=20, held=True),
        RunFilter(limit=20, text="order 01234"),
        RunFilter(limit=20, attributes=(AttributeFilter("n", "=", 7),)),
        RunFilter(limit=20, attributes=(AttributeFilter("n", ">=", 2990),)),
        RunFilter(limit=20, order="-n"),
    ],
    ids=lambda query: ",".join(name for name in query.__struct_fields__ if getattr(query, name) and name != "limit"),
)
def test_a_list_does_not_read_all_runs(query: RunFilter, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FEW", 100)

    async def read(store: SqliteStore) -> int:
        steps: dict[str, int] = {}

        def profile(event: Any) -> None:  # FTS5 uses its own statements many times, and SQLite counts on
            number = event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
            steps[event["sql"]] = max(steps.get(event["sql"], 0), number)

        store._db._search.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
        assert len(await store.search(query)) > 0
        return sum(steps.values())

    assert 0 < use(filled, read) < 30_000, "3,000 runs of ten instructions"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lists") / "runs.db"
    statuses = (*([RunStatus.COMPLETED] * 8), RunStatus.FAILED, RunStatus.WAITING)
    stored = [
        summary(
            RunId(f"run-{i:07}"),
            workflow="w" if i % 2 else "v",
            status=statuses[i * 7 % 10],
            title=f"order {i:05}",
            created=i,
            held=i % 50 == 0,
            attributes={"n": i},
        )
        for i in range(3000)
    ]

    async def fill(store: SqliteStore) -> None:
        await store.append([begin(each.run, summary=each) for each in stored])

    use(path, fill)
    index(path)
    return path
