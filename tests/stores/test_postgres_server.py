"""What only a server can do to a store, and how the PostgreSQL store takes it (S1 to S8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import Damaged, OutcomeUnknown, StoreBusy, StoreFull, StoreReadOnly
from outlast.history.ids import RunId
from outlast.history.record import Kind
from outlast.store import LANDED, Lost
from outlast.stores.postgres import PostgresStore, change_feed
from outlast.stores.postgres.rows import escape, unescape
from outlast.testing.contract.blobs import chunked, content
from outlast.testing.contract.samples import ANN, BEN, A, B, C, begin, follow, land, summary
from outlast.testing.contract.wakeups import RecordedSubscription
from support.servers.postgres_admin import carry_out, cut_lines

Scene = Callable[[PostgresStore], Awaitable[None]]


@pytest.fixture
def play(postgres_url: str) -> Callable[[Scene], None]:
    """Play a scene on a fresh store."""

    def played(scene: Scene) -> None:
        async def whole() -> None:
            store = PostgresStore(postgres_url)
            try:
                async with asyncio.timeout(60):
                    await store.open()
                    await scene(store)
            finally:
                await store.close()

        asyncio.run(whole())

    return played


# --- how it is kept


def test_the_view_shows_one_row_per_event(play: Callable[[Scene], None], postgres_url: str) -> None:
    async def scene(store: PostgresStore) -> None:
        head = await land(
            store, begin(A, body='[{"type":"RunCreated"},{"type":"NodeStarted","node":"ö"}]'.encode(), count=2)
        )
        await land(store, follow(head, body=b'[{"type":"NodeCompleted", "node":"n"}]'))
        rows = await carry_out(postgres_url, "select run, seq, type, node, body::text from {s}.event order by seq")
        assert [tuple(row)[:4] for row in rows] == [
            (A, 1, "RunCreated", None),
            (A, 2, "NodeStarted", "ö"),
            (A, 3, "NodeCompleted", "n"),
        ]
        assert rows[2][4] == '{"type":"NodeCompleted", "node":"n"}', "as it was written, space by space"

    play(scene)


@pytest.mark.parametrize("is_released", [True, False])
def test_a_run_that_was_not_released_was_interrupted_though_its_claim_is_lost(
    play: Callable[[Scene], None], postgres_url: str, is_released: bool
) -> None:
    async def scene(store: PostgresStore) -> None:
        await store.enrol(ANN, 30.0)
        head = await land(store, begin(A, claim=ANN))
        (own,) = await store.claim(ANN, runs=[A])
        assert (own.cause, own.previous) == ("claimed", "")
        if is_released:
            assert await store.release(A, ANN, head.version)
        await carry_out(postgres_url, "delete from {s}.claim")
        await store.enrol(BEN, 30.0)
        (claim,) = await store.claim(BEN, runs=[A])
        assert (claim.cause, claim.previous) == (("claimed", "") if is_released else ("expired", ANN))

    play(scene)


def test_an_append_writes_over_the_head_in_place_and_leaves_the_catalogue(
    play: Callable[[Scene], None], postgres_url: str
) -> None:
    async def scene(store: PostgresStore) -> None:
        head = await land(store, begin(A, summary=summary(A)))
        before = await carry_out(postgres_url, "select xmin, ctid from {s}.catalogue")
        for _ in range(200):
            head = await land(store, follow(head))
        assert await carry_out(postgres_url, "select xmin, ctid from {s}.catalogue") == before
        await carry_out(postgres_url, "select pg_stat_force_next_flush()")
        await store.close()  # a backend tells its counts when it leaves
        for _ in range(100):
            ((updates, in_place),) = await carry_out(
                postgres_url,
                "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where schemaname = '{s}' and relname = 'head'",
            )
            if updates >= 200:
                break
            await asyncio.sleep(0.05)
        assert updates >= 200
        assert in_place == updates

    play(scene)


@pytest.mark.parametrize(("durability", "expected"), [("full", "on"), ("relaxed", "off")])
def test_an_append_waits_for_the_disk_whatever_is_set_for_the_database(
    durability: str, expected: str, postgres_url: str
) -> None:
    """S3"""

    async def scene() -> None:
        store = PostgresStore(f"{postgres_url}&synchronous_commit=off", durability=durability)  # type: ignore[arg-type]
        await store.open()
        await carry_out(
            postgres_url,
            "create table {s}.seen (way text)",
            """create function {s}.see() returns trigger language plpgsql as $$ begin
               insert into {s}.seen values (current_setting('synchronous_commit')); return null; end $$""",
            """create constraint trigger see after insert on {s}.log deferrable initially deferred
               for each row execute function {s}.see()""",
        )
        await land(store, begin(A))
        rows = await carry_out(postgres_url, "select way from {s}.seen")
        assert [row[0] for row in rows] == [expected]
        await store.close()

    asyncio.run(scene())


@given(st.text(alphabet=st.sampled_from("\x00\x01\x0201a☃")), st.text(alphabet=st.sampled_from("\x00\x01\x0201a☃")))
def test_text_that_the_server_cannot_keep_comes_back_and_stays_apart(one: str, other: str) -> None:
    assert unescape(escape(one)) == one
    assert "\x00" not in escape(one)
    assert (escape(one) == escape(other)) == (one == other)
    assert escape(one) in escape(other + one + other)


# --- batches


def test_batches_that_name_the_same_runs_in_any_order_never_stand_in_each_others_way(
    play: Callable[[Scene], None], postgres_url: str
) -> None:
    """S4"""

    async def scene(store: PostgresStore) -> None:
        other = PostgresStore(postgres_url)
        runs = [RunId(f"r{number}") for number in range(30)]
        heads = [await land(store, begin(run)) for run in runs]
        for turn in range(30):
            fresh = [begin(RunId(f"fresh-{turn}-{number}")) for number in range(5)]
            batch = [*(follow(head) for head in heads), *fresh]
            rival = [
                *(follow(head, kind=Kind.GUEST) for head in reversed(heads)),
                *reversed([begin(each.record.run) for each in fresh]),
            ]
            ours, theirs = await asyncio.gather(store.append(batch), other.append(rival))
            by_run = {each.record.run: outcome for each, outcome in zip(rival, theirs, strict=True)}
            for each, outcome in zip(batch, ours, strict=True):
                assert sorted([outcome == LANDED, by_run[each.record.run] == LANDED]) == [False, True]
            heads = [head for head in await asyncio.gather(*(store.head(run) for run in runs)) if head is not None]
        await other.close()

    play(scene)


def test_a_batch_beyond_what_one_call_carries_is_still_one_transaction(
    play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    """S4"""
    monkeypatch.setattr("outlast.stores.postgres.batches.LARGEST_PART", 1000)

    async def scene(store: PostgresStore) -> None:
        one, two = begin(A, body=b"a" * 900), begin(B, body=b"b" * 900)
        again = follow(one.head, body=b"c" * 2000)
        assert (await store.append([one, two, again, begin(A)]))[:3] == [LANDED] * 3
        assert await store.read(A) == [one.record, again.record]
        rows = await carry_out(postgres_url, "select distinct tx from {s}.log")
        assert len(rows) == 1

    play(scene)


# --- refusals


async def break_log(url: str, how: str) -> None:
    """From now on, an insert into the log does this."""
    await carry_out(
        url,
        f"create function {{s}}.break_it() returns trigger language plpgsql as $$ begin {how}; return null; end $$",
        """create constraint trigger break_it after insert on {s}.log deferrable initially deferred
           for each row execute function {s}.break_it()""",
    )


def test_a_full_disk_is_told_and_nothing_is_written(play: Callable[[Scene], None], postgres_url: str) -> None:
    """S5"""

    async def scene(store: PostgresStore) -> None:
        await break_log(postgres_url, "raise exception using errcode = '53100', message = 'No space left on device'")
        with pytest.raises(StoreFull):
            await store.append([begin(A)])
        assert await store.head(A) is None

    play(scene)


def test_a_server_that_only_reads_is_told(postgres_url: str) -> None:
    """S5: as a standby, or a database that was set so"""

    async def scene() -> None:
        writer = PostgresStore(postgres_url)
        await writer.open()
        await writer.close()
        store = PostgresStore(f"{postgres_url}&default_transaction_read_only=on")
        for write in (store.append([begin(A)]), store.enrol(ANN, 30), store.claim(ANN), store.blobs.put(b"x")):
            with pytest.raises(StoreReadOnly):
                await write
        assert await store.head(A) is None
        await store.close()

    asyncio.run(scene())


def test_a_head_that_a_stranger_keeps_locked_makes_the_store_busy(
    play: Callable[[Scene], None], postgres_url: str
) -> None:
    """S5"""

    async def scene(store: PostgresStore) -> None:
        head = await land(store, begin(A))
        await carry_out(postgres_url, "alter function {s}.append set lock_timeout = '50ms'")
        stranger = await store._db.connect()
        async with stranger.transaction():
            await stranger.execute(store._db.text("select 1 from {s}.head for update"))
            with pytest.raises(StoreBusy):
                await store.append([follow(head)])
        await stranger.close()
        await land(store, follow(head))

    play(scene)


def test_a_line_cut_at_commit_leaves_the_outcome_open_and_the_store_usable(
    play: Callable[[Scene], None], postgres_url: str
) -> None:
    """S5"""

    async def scene(store: PostgresStore) -> None:
        await break_log(postgres_url, "perform pg_terminate_backend(pg_backend_pid())")
        append = begin(A)
        with pytest.raises(OutcomeUnknown):
            await store.append([append])
        await carry_out(postgres_url, "drop trigger break_it on {s}.log")
        (outcome,) = await store.append([append])
        assert outcome == LANDED or (isinstance(outcome, Lost) and outcome.tail[:1] == (append.record,))
        assert await store.read(A) == [append.record]

    play(scene)


def test_a_line_cut_while_nobody_speaks_is_not_noticed(play: Callable[[Scene], None], postgres_url: str) -> None:
    """S3"""

    async def scene(store: PostgresStore) -> None:
        head = await land(store, begin(A, summary=summary(A), claim=ANN))
        for _ in range(5):
            assert await cut_lines(postgres_url) > 0
            assert await store.head(A) == head
            await store.enrol(ANN, 30)
            assert await store.renew(ANN, 30)
            await cut_lines(postgres_url)
            await asyncio.sleep(0.05)  # until the loop knows it: else the outcome of an append is open
            head = await land(store, follow(head))

    play(scene)


# --- news


def test_news_go_on_after_the_line_was_cut(play: Callable[[Scene], None], postgres_url: str) -> None:
    """S8"""

    async def scene(store: PostgresStore) -> None:
        other = PostgresStore(postgres_url)
        subscription = RecordedSubscription(store)
        await land(other, begin(A))
        await subscription.wait_for([A])
        await cut_lines(postgres_url)
        await asyncio.sleep(0.05)
        await land(other, begin(B))
        await subscription.wait_for([B])
        subscription.end()
        await other.close()

    play(scene)


def test_what_its_writer_could_not_announce_is_found_by_looking(
    play: Callable[[Scene], None], postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: it died between the append and the announcement"""
    monkeypatch.setattr(change_feed, "SWEEP", 0.1)

    async def scene(store: PostgresStore) -> None:
        mute = PostgresStore(f"{postgres_url}&pgbouncer=1")
        subscription = RecordedSubscription(store)
        await land(store, begin(C))
        await land(mute, begin(A))
        await subscription.wait_for([A])
        assert C not in subscription.reported, "one's own are no news"
        subscription.end()
        await mute.close()

    play(scene)


# --- blobs


def test_a_blob_lies_in_chunks_and_damage_to_one_is_noticed(play: Callable[[Scene], None], postgres_url: str) -> None:
    async def scene(store: PostgresStore) -> None:
        whole = bytes(range(256)) * 15_000
        ref = await store.blobs.put(chunked([whole[:100], whole[100:]]))
        assert await content(store.blobs, ref) == whole
        assert (await carry_out(postgres_url, "select count(*) from {s}.chunk"))[0][0] == 4
        await carry_out(postgres_url, "update {s}.chunk set body = set_byte(body, 5, 77) where number = 2")
        with pytest.raises(Damaged):
            await content(store.blobs, ref)

    play(scene)


def test_a_blob_that_was_never_finished_is_removed_a_day_later(
    play: Callable[[Scene], None], postgres_url: str
) -> None:
    async def scene(store: PostgresStore) -> None:
        for age in (25, 1):
            await carry_out(
                postgres_url,
                f"insert into {{s}}.blob (put) values ({{s}}.clock(0) - {age} * 3600000000::bigint)",
                "insert into {s}.chunk select max(id), 0, 'x' from {s}.blob",
            )
        await store.blobs.put(b"another")
        assert (await carry_out(postgres_url, "select count(*) from {s}.blob where hash is null"))[0][0] == 1
        assert (await carry_out(postgres_url, "select count(*) from {s}.chunk"))[0][0] == 2

    play(scene)
