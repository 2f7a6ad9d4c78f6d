"""Runs in an object store: S3, Google Cloud Storage or Azure; nothing else is needed, no server of ours.

An append is one object, named by its run and the seq of its first event, and created only where nothing is. That is the
commit: of two that write at one place the server refuses one, whoever holds which claim. Everything else follows from
those objects, and is recognised when it is behind:

- The sheet of a run (`run_index.py`) is its head, summary and waits as of a version, and who holds it. It is replaced by
  compare-and-set; whoever reads one reads the log from there on. It is written when what people look for changes, and now
  and then, so that little has to be read behind it: the boundary between two nodes is one request.
- Marks (`keys.py`) are empty objects whose names say that a run is ready, held, waiting, due or listed. They are put
  before what makes them right, so a process that dies in between leaves a mark too many and never one too few; whoever
  finds a mark looks at the run, and removes it in time.
- Merged segments (`reading.py`) repeat appends to be read at once. The appends' own objects are never removed.

O1  An append's object, once there, is never changed, removed or made again.
O2  Whoever wrote something under a condition recognises it: every such object carries a nonce, and a refusal is answered
    by reading what is there. So a request that was sent twice happened once, and an object that looks as it did is the
    same one.
O3  The epoch, the version and the waits an append needs are judged by what is exact for the version it expects; that the
    log is still there, its own creation tells.
O4  What is unfinished is found by marks alone: no list grows with the runs that are over, but those of runs that are
    over.
O5  Time is the server's (`clock.py`).

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
from outlast.stores.objects.claims import ClaimObjects
from outlast.stores.objects.documents import DocumentObjects
from outlast.stores.objects.journal import JournalObjects
from outlast.stores.objects.lines import LineObjects
from outlast.stores.objects.wakeups import WakeupObjects

__all__ = ["ObjectStore"]

PATIENCE = 10.0
"""Seconds that closing waits for what follows from appends that have landed."""


class ObjectStore(JournalObjects, ChangeFeedObjects, ClaimObjects, WakeupObjects, LineObjects, DocumentObjects):
    """A store in a bucket that keeps conditions (`opening.open_bucket`), with its blobs in it unless they have a folder."""

    blobs: Blobs

    def __init__(self, bucket: Bucket, *, blobs: Path | None = None, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._reopen = partial(type(self), bucket, blobs=blobs, readonly=readonly)
        if blobs is None:
            self.blobs = ObjectBlobs(bucket, readonly=readonly)
        else:
            from outlast.stores.blob_folder import FolderBlobs

            self.blobs = FolderBlobs(blobs, readonly=readonly)

    @property
    def requests(self) -> Requests:
        """How many requests were made, by kind."""
        return self._bucket.requests

    async def now(self) -> int:
        return await self._now()

    def reopen(self) -> ObjectStore:
        other = self._reopen()
        other.skew = self.skew
        return other

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PATIENCE)
            for task in list(self._tasks):
                task.cancel()
        await self._publish_and_leave()
        await self._bucket.close()
