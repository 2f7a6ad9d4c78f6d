"""Encryption at rest: the contract, keys and their rotation, and what is not in the files of a store."""

from __future__ import annotations

import asyncio
import base64
import logging
from pathlib import Path
from typing import ClassVar, cast

import pytest

import outlast as ol
from outlast.compose import open_desk, open_store
from outlast.errors import Damaged, InvalidInput, StoreUnusable
from outlast.history.ids import RunId, content_hash
from outlast.store import BlobRef, Store
from outlast.stores.encrypted import COMMAND, FRAME, KEYS, EncryptedStore, Keys, configured_keys
from outlast.stores.memory import Memory, MemoryStore
from outlast.stores.sqlite import SqliteStore
from outlast.testing.contract import StoreContract
from outlast.testing.contract.samples import A, B, C, begin, land, tombstone

ONE, TWO = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
SECRET = "forty-two swans"


class TestEncryptedStore(StoreContract):
    """An encrypted store keeps the contract, except that runs are not found by their reason, which is encrypted."""

    test_text_is_found_anywhere_and_in_any_case = None  # type: ignore[assignment]
    test_a_run_is_found_by_its_last_summary = None  # type: ignore[assignment]

    kept: ClassVar[dict[Path, Memory]] = {}

    async def open_store(self, where: Path) -> Store:
        return cast("Store", EncryptedStore(MemoryStore(self.kept.setdefault(where, Memory())), Keys(ONE)))

    async def rewrite_version(self, where: Path, version: int) -> None:
        self.kept[where].version = version


async def test_a_blob_that_a_kept_run_names_under_an_older_key_is_not_collected() -> None:
    """S13"""
    memory, content = Memory(), b"swans " * 20_000

    def store(keys: str) -> Store:
        return cast("Store", EncryptedStore(MemoryStore(memory), Keys(keys)))

    plain, first, second = MemoryStore(memory), store(ONE), store(f"{TWO},{ONE}")
    for each, run in ((plain, A), (first, B), (second, C)):
        await land(each, begin(run, blobs=[(await each.blobs.put(content)).hash]))
    assert len(memory.blobs) == 3
    hash = BlobRef(content_hash(content), len(content))
    for run, left in ((C, 2), (B, 1), (A, 0)):
        assert [chunk async for chunk in second.blobs.open(hash)]
        buried = tombstone(run, reason=SECRET, key=SECRET, by=SECRET)
        assert await second.delete(buried, 1)
        assert await second.delete(buried, 1), "it is recognised"
        assert (await second.tombstone(run)) == buried
        assert SECRET not in repr(memory.tombstones[run])
        assert not await second.purge()
        await asyncio.sleep(0.001)
        collected = await second.collect(await second.now())
        assert collected == [hash.hash]
        assert (len(memory.blobs), len(memory.documents)) == (left, max(left - 1, 0))
    assert not await second.blobs.has(hash.hash)


@ol.node
async def whisper(text: str) -> str:
    logging.getLogger("talk").warning(text)
    return text * 2


@ol.node
async def shout(text: str) -> str:
    return text * 30_000


@ol.workflow
async def encrypted_talk(text: str) -> str:
    await whisper(text)
    await shout(text)
    answer = await ol.ask(f"Is it {text}?", str)
    raise ValueError(f"{text} {answer}")


async def talk(store: Path, run: str) -> None:
    async with ol.open(store) as engine:
        handle = await engine.start(encrypted_talk.options(id=run), SECRET)
        async with asyncio.timeout(60):
            while (await handle.get()).waiting == 0:
                await asyncio.sleep(0.01)
        await handle.answer(SECRET.upper())
        with pytest.raises(ValueError, match=SECRET):
            await engine.result(handle.run)
        assert SECRET in (await handle.get()).reason
        assert (await engine.verify(handle.run)).is_sound
    async with ol.open(store, worker=False) as engine:  # lines are durable when the engine is closed
        assert [line.text async for line in engine.lines(handle.run)] == [SECRET]


async def test_content_is_nowhere_in_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, ONE)
    await talk(tmp_path / "runs.db", "talk")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in files)
    assert b"encrypted_talk" in content
    for text in (SECRET, SECRET.upper(), "ValueError", "Is it"):
        assert text.encode() not in content, text
    monkeypatch.delenv(KEYS)
    await talk(tmp_path / "plain.db", "talk")
    assert SECRET.encode() in b"".join(path.read_bytes() for path in tmp_path.rglob("plain*") if path.is_file())


async def test_a_process_without_the_keys_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, ONE)
    await talk(tmp_path / "runs.db", "talk")
    for text, message in (("", f"set {KEYS}"), (TWO, "which is not in")):
        monkeypatch.setenv(KEYS, text)
        with pytest.raises(StoreUnusable, match=message):
            async with ol.open(tmp_path / "runs.db"):
                pass
    monkeypatch.delenv(KEYS)
    store = open_store(tmp_path / "runs.db")
    (record, *_) = await store.read(RunId("talk"))
    with pytest.raises(StoreUnusable, match="run talk is encrypted"):
        record.events()
    await store.close()


async def test_keys_rotate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first key encrypts, all decrypt; content from before the encryption stays readable."""
    await talk(tmp_path / "runs.db", "plain")
    monkeypatch.setenv(KEYS, ONE)
    await talk(tmp_path / "runs.db", "first")
    monkeypatch.setenv(KEYS, f"{TWO}, {ONE}")
    await talk(tmp_path / "runs.db", "second")
    async with ol.open(tmp_path / "runs.db") as engine:
        for run in map(RunId, ("plain", "first", "second")):
            assert (await engine.verify(run)).is_sound
            assert SECRET in (await engine.get(run)).reason


async def test_a_store_without_encryption_is_read_with_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await talk(tmp_path / "runs.db", "plain")
    monkeypatch.setenv(KEYS, ONE)
    async with open_desk(str(tmp_path / "runs.db"), readonly=True) as engine:
        assert SECRET in (await engine.get(RunId("plain"))).reason
    monkeypatch.delenv(KEYS)
    async with open_desk(str(tmp_path / "runs.db"), readonly=True) as engine:  # it was not marked
        assert (await engine.verify(RunId("plain"))).is_sound


async def test_blobs_are_stored_once_and_rotate(tmp_path: Path) -> None:
    whole = bytes(range(256)) * (FRAME // 100)
    refs: list[BlobRef] = []
    for keys in (ONE, ONE, f"{TWO},{ONE}"):
        store = EncryptedStore(SqliteStore(tmp_path / "runs.db"), Keys(keys))
        refs.append(await store.blobs.put(whole))
        assert b"".join([chunk async for chunk in store.blobs.open(refs[0])]) == whole
        await store.close()
    assert len(set(refs)) == 1
    blobs = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".db"]
    assert len(blobs) == 2, "one with each key"
    assert not any(refs[0].hash in str(path) for path in blobs)


async def test_content_that_was_moved_or_changed_is_damaged() -> None:
    keys = Keys(ONE)
    sealed = keys.encrypt(b"content", "here")
    assert keys.decrypt(sealed, "here") == b"content"
    for content, place in ((sealed, "there"), (sealed[:-1] + bytes([sealed[-1] ^ 1]), "here"), (sealed[:20], "here")):
        with pytest.raises(Damaged, match="were changed or moved"):
            keys.decrypt(content, place)


@pytest.mark.parametrize("text", ["", "short", f"{ONE},", "é", base64.b64encode(bytes(16)).decode()])
def test_invalid_keys_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(InvalidInput, match="must be 32 bytes in base64") as refused:
        Keys(text)
    assert not text or text not in str(refused.value)


def test_a_command_gives_the_keys() -> None:
    keys = configured_keys({COMMAND: f"echo {ONE}"})
    assert keys is not None
    assert keys.decrypt(Keys(ONE).encrypt(b"content", "here"), "here") == b"content"
    with pytest.raises(StoreUnusable, match=f"{COMMAND} failed"):
        configured_keys({COMMAND: "false"})
    assert configured_keys({}) is None
