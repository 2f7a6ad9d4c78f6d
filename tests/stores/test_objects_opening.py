"""Which buckets are opened and which are refused, what is said then, and that no secret is (P11)."""

from __future__ import annotations

import asyncio
import builtins
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

import outlast as ol
from outlast.address import BucketAddress, bucket_at, file_at
from outlast.compose import open_store
from outlast.errors import InvalidInput, StoreError, StoreReadOnly, StoreUnusable
from outlast.settings import read_settings
from outlast.stores.objects import ObjectStore
from outlast.stores.objects.opening import bucket_over
from outlast.testing.contract.samples import ANN, A, begin, land, summary
from support.servers import s3

HUSH = "wJalrXUtnFEMI-hush"


# --- addresses


def test_an_address_names_a_bucket_a_prefix_and_a_server() -> None:
    at = bucket_at("s3://bucket/some/prefix?endpoint=http://127.0.0.1:9&allow_http=true&region=r&timeout=2.5")
    assert at == BucketAddress(
        "s3", "bucket", "some/prefix", {"endpoint": "http://127.0.0.1:9", "region": "r"}, True, 2.5
    )
    assert at is not None
    assert at.url == "s3://bucket/some/prefix"
    assert bucket_at("gs://bucket") == BucketAddress("gs", "bucket", "")
    for other in ("runs.db", "sqlite:///x.db", "memory:", Path("file:/x"), "./s3:x"):
        assert bucket_at(other) is None
    assert file_at("s3://bucket/prefix") is None


@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3:///prefix",
        "s3://b",
        "s3://bucket/a//b",
        "s3://bucket/a b",
        "s3://bucket/x#y",
        "s3://buc ket/x",
        "s3://bucket/x?allow_http=maybe",
        "s3://bucket/x?timeout=0",
        "s3://bucket/x?timeout=soon",
        "s3:bucket",
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(address: str) -> None:
    """P11"""
    with pytest.raises(InvalidInput):
        open_store(address)


@pytest.mark.parametrize("address", ["file:///folder", "file://", "file:/folder"])
def test_a_folder_is_refused_and_sqlite_is_named(address: str) -> None:
    with pytest.raises(InvalidInput, match="SQLite"):
        open_store(address)


@pytest.mark.parametrize(
    "address",
    [
        f"s3://key:{HUSH}@bucket/x",
        f"s3://bucket/x?secret_access_key={HUSH}",
        f"s3://bucket/x?aws_session_token={HUSH}&region=r",
        f"az://container/x?sas={HUSH}",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    for use in (open_store, lambda given: read_settings({"store": given})):
        with pytest.raises(InvalidInput) as refused:
            use(address)
        assert HUSH not in str(refused.value)
        assert "environment" in str(refused.value)


def test_settings_know_buckets(tmp_path: Path) -> None:
    (tmp_path / "outlast.toml").write_text('store = "s3://bucket/runs"\n')
    settings = read_settings(start=tmp_path, environment={})
    assert settings.store == "s3://bucket/runs", "it is no path below the project"
    other = read_settings({"store": "s3://elsewhere/runs"}, start=tmp_path, environment={"OUTLAST_BLOBS": "x"})
    assert (other.store, other.blobs) == ("s3://elsewhere/runs", "")


# --- what is there


def names(objects: MemoryStore) -> list[str]:
    return sorted(meta["path"] for page in objects.list() for meta in page)


def test_a_store_is_made_unless_it_is_only_to_be_read() -> None:
    objects = MemoryStore()
    with pytest.raises(StoreUnusable, match="there is no store"):
        bucket_over(objects, "memory", readonly=True)
    assert names(objects) == []
    bucket_over(objects, "memory")
    bucket_over(objects, "memory", readonly=True)


def test_who_only_reads_writes_nothing() -> None:
    objects = MemoryStore()

    async def look() -> None:
        store = ObjectStore(bucket_over(objects, "memory"))
        await land(store, begin(A, summary=summary(A)))
        await store.close()
        before = names(objects)
        reader = ObjectStore(bucket_over(objects, "memory", readonly=True), readonly=True)
        assert len(await reader.read(A)) == 1
        for attempt in (reader.append([begin(A)]), reader.enrol(ANN, 30), reader.blobs.put(b"x"), reader.keep([])):
            with pytest.raises(StoreReadOnly):
                await attempt
        end = reader.subscribe(lambda _: None)
        await asyncio.sleep(0)
        end()
        await reader.close()
        assert names(objects) == before

    asyncio.run(look())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"format": 99}', "upgrade"),
        ('{"format": 1}', "create a new store"),
        ("[]", "not Outlast's"),
        ("{}", "not Outlast's"),
        ("x", "not"),
    ],
)
def test_a_foreign_or_newer_format_is_refused(content: str, said: str) -> None:
    objects = MemoryStore()
    objects.put("outlast.json", content.encode())
    with pytest.raises(StoreUnusable, match=said):
        bucket_over(objects, "memory")


def test_without_obstore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "obstore":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(StoreUnusable, match=r"outlast\[objects\]"):
        open_store("s3://bucket/runs")


# --- servers


class Careless(BaseHTTPRequestHandler):
    """A server that keeps objects, and takes no notice of conditions."""

    kept: dict[str, bytes]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.kept[self.path] = self.rfile.read(int(self.headers["content-length"]))
        self._answer(200, b"")

    def do_GET(self) -> None:
        self._answer(200 if self.path in self.kept else 404, self.kept.get(self.path, b""))

    def do_DELETE(self) -> None:
        self.kept.pop(self.path, None)
        self._answer(204, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("ETag", '"etag"')
        self.send_header("Last-Modified", "Mon, 16 Nov 2026 12:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", HUSH)
    handler = type("Handler", (Careless,), {"kept": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_that_ignores_conditions_is_refused_at_once(careless: int) -> None:
    """S2: two could win there"""
    for _ in range(2):
        with pytest.raises(StoreUnusable, match="ignores conditional writes"):
            open_store(s3.address(careless, "runs"))


def test_a_server_that_does_not_answer_is_told_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDhush")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", HUSH)
    with pytest.raises(StoreUnusable) as refused:
        open_store(s3.address(1, "runs"))
    assert "s3://outlast/runs" in str(refused.value)
    assert HUSH not in str(refused.value)
    assert "AKIDhush" not in str(refused.value)


def test_wrong_credentials_are_told_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    address = s3.shared().address(f"opening/{os.urandom(8).hex()}")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", HUSH)
    with pytest.raises(StoreError) as refused:
        open_store(address)
    assert HUSH not in str(refused.value)
    assert s3.KEY not in str(refused.value)


def refused(handler: Any) -> None:
    """Answer as S3 does where it refuses."""
    handler.rfile.read(int(handler.headers["content-length"]))
    handler._answer(403, f"<?xml version='1.0'?>\n<Error><Code>{handler.code}</Code></Error>".encode())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("RequestTimeTooSkewed", "the server refuses the clock of this machine: set the clock"),
        ("SignatureDoesNotMatch", "the access key or the secret key is wrong"),
        ("ExpiredToken", "the session token has expired"),
    ],
)
def test_a_refusal_of_the_server_is_told_as_what_it_is(
    careless: int, code: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Careless, "do_PUT", refused)
    monkeypatch.setattr(Careless, "code", code, raising=False)
    with pytest.raises(StoreUnusable, match=said):
        open_store(s3.address(careless, "runs"))


def test_missing_credentials_are_told_as_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(StoreUnusable, match="no credentials were found: set AWS_ACCESS_KEY_ID"):
        open_store("s3://bucket/runs?endpoint=http://127.0.0.1:1&allow_http=true&region=us-east-1")


def test_a_bucket_that_is_not_there_is_refused() -> None:
    address = s3.shared().address("x").replace(f"s3://{s3.BUCKET}/", "s3://no-such-bucket/")
    with pytest.raises(StoreUnusable):
        open_store(address, readonly=True)


def test_claims_on_a_server_last_ten_seconds_or_more() -> None:
    """S6: its clock is known to a second or two"""

    async def enrol() -> None:
        store = open_store(s3.shared().address(f"opening/{os.urandom(8).hex()}"))
        with pytest.raises(InvalidInput, match="10 seconds"):
            await store.enrol(ANN, 9)
        await store.enrol(ANN, 10)
        await store.close()

    asyncio.run(enrol())


# --- an engine


@ol.node
async def greet(name: str) -> str:
    return f"hello {name}"


@ol.workflow
async def greeting(name: str) -> str:
    return await greet(name)


def test_an_engine_opens_over_a_bucket() -> None:
    """P1"""
    address = s3.shared().address(f"opening/{os.urandom(8).hex()}")
    with ol.open(address) as engine:
        assert engine.start(greeting.options(id="one"), "you").result() == "hello you"
    with ol.open(address) as engine:
        assert engine.start(greeting.options(id="one"), "you").result() == "hello you"
        assert isinstance(open_store(address), ObjectStore)
