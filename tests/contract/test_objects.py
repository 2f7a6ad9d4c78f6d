"""The object store keeps the contract: in memory, and on a real S3 server."""

from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from obstore.store import MemoryStore, from_url

from outlast.address import bucket_at
from outlast.compose import open_store
from outlast.store import Store
from outlast.stores.objects import ObjectStore, blobs, deletion
from outlast.stores.objects.keys import FORMAT
from outlast.stores.objects.opening import bucket_over
from outlast.testing.contract import StoreContract
from support.servers import s3


@pytest.fixture(autouse=True)
def _nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`purge` removes the logs of deleted runs at once: no process stands still here. `collect` does not wait for writers,
    who then read the state of a blob each time."""
    monkeypatch.setattr(deletion, "FENCED_S", 0)
    for name in ("TRUSTED_S", "WAIT_S"):
        monkeypatch.setattr(blobs, name, 0)


class TestInMemory(StoreContract):
    kept: ClassVar[dict[Path, MemoryStore]] = {}

    async def open_store(self, where: Path) -> Store:
        return ObjectStore(bucket_over(self.kept.setdefault(where, MemoryStore()), "memory"))

    async def rewrite_version(self, where: Path, version: int) -> None:
        self.kept[where].put(FORMAT, msgspec.json.encode({"format": version}))


class TestS3(StoreContract):
    parts = 4
    put_time_unit = 1.1

    async def open_store(self, where: Path) -> Store:
        return open_store(self._address(where))

    async def rewrite_version(self, where: Path, version: int) -> None:
        at = bucket_at(self._address(where))
        assert at is not None
        config: Any = dict(at.config)
        store: Any = from_url(at.url, config=config, client_options={"allow_http": at.allow_http})
        store.put(FORMAT, msgspec.json.encode({"format": version}))

    def _address(self, where: Path) -> str:
        return s3.shared().address(f"contract/{where.name}")
