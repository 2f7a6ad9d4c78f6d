"""A store in an object store: S3, Google Cloud Storage or Azure, without another server.

An append is one object, named by its run and the seq of its first event, and created only if the name is free. That is the
commit: if two writers create the same object, the server refuses one of them, with or without a claim. Everything else is
derived from these objects and has a version that shows whether it is stale:

- The index of a run (`run_index.py`, object `index/{run}`) has its head, summary and waits at a version, and its holder. It
  is replaced by compare-and-set; a reader then reads the log after its version. It is written when the searchable fields
  change and every few appends, so that this read stays short: the boundary between two nodes costs one request.
- Marks (`keys.py`) are empty objects whose names record that a run is ready, held, waiting, due or listed. A mark is put
  before the change that requires it, so a process that dies in between leaves a mark too many, never one too few. A reader
  that finds a mark reads the run, and later deletes a stale mark.
- Slots (`slots.py`) have one object per name with the holders, which the indexes of their runs confirm.
- Merged segments (`reading.py`) repeat many appends in one object for fast reading. The objects of the appends stay.

O1  The object of an append is never changed, and removed only when its run is deleted (`deletion.py`): then every reader
    finds the tombstone first.
O2  A writer recognises its own conditional write: every such object has a nonce, and after a refusal the writer reads the
    object. So a request that was sent twice happened once, and two equal objects are the same one.
O3  Epoch, version and needed waits are checked against an index that is exact for the version that the append expects. The
    creation of the append's object checks that the log still has this version.
O4  Unfinished runs are found only by marks: only lists of finished runs grow with the number of finished runs.
O5  Time is the server's clock (`clock.py`).

The bucket (`bucket.py`) is the interface to the server; `remote.py` implements it with obstore.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from outlast.store import Blobs
from outlast.stores.objects.blobs import ObjectBlobs
from outlast.stores.objects.bucket import Bucket, Requests
from outlast.stores.objects.change_feed import ChangeFeedObjects
from outlast.stores.objects.documents import DocumentObjects
from outlast.stores.objects.journal import JournalObjects
from outlast.stores.objects.lines import LineObjects
from outlast.stores.objects.wakeups import WakeupObjects

__all__ = ["ObjectStore"]

CLOSE_TIMEOUT_S = 10.0
"""Seconds that `close` waits for background writes."""


class ObjectStore(JournalObjects, ChangeFeedObjects, WakeupObjects, LineObjects, DocumentObjects):
    """A store in a bucket with conditional writes (`opening.open_bucket`). Its blobs are in the bucket or in a folder."""

    blobs: Blobs

    def __init__(self, bucket: Bucket, *, blobs: Path | None = None, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._reopen = partial(type(self), bucket, blobs=blobs, readonly=readonly)
        if blobs is None:
            self.blobs = ObjectBlobs(bucket, readonly=readonly)
        else:
            from outlast.stores.blob_folder import FolderBlobs

            self.blobs = self._folder = FolderBlobs(blobs, readonly=readonly)

    @property
    def requests(self) -> Requests:
        """The number of requests, by kind."""
        return self._bucket.requests

    async def now(self) -> int:
        return await self._now()

    def reopen(self) -> ObjectStore:
        other = self._reopen()
        other.skew = self.skew
        return other

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT_S)
            for task in list(self._tasks):
                task.cancel()
        await self._stop_publishing()
        await self._bucket.close()
