"""Looking at a bucket as a whole: a list of all names, and the sheets of runs that are not over."""

from __future__ import annotations

from collections import Counter

import obstore
from msgspec import Struct

from outlast.history.ids import RunId, WorkerId
from outlast.stores.objects import ObjectStore, keys
from outlast.stores.objects.bucket import Bucket
from outlast.stores.objects.run_index import UNFINISHED_FOLDER


class Enrolled(Struct, frozen=True):
    """A worker that the store knows, and how many runs it holds."""

    worker: WorkerId
    is_live: bool
    expires: int
    runs: int


class Contents(Struct, frozen=True):
    """What is in a bucket; `bytes` are those of everything but the blobs."""

    library: str
    bytes: int
    runs: dict[str, int]
    workers: tuple[Enrolled, ...]
    blob_count: int
    blob_bytes: int


async def look(bucket: Bucket) -> Contents:
    """What is there. It costs a request for every thousand objects, one for each run that is not over and each worker."""
    store = ObjectStore(bucket, readonly=True)
    blobs, others, held = Counter[str](), 0, Counter[str]()
    runs, lives = dict[str, str](), list[str]()
    for folder in await bucket.folders(""):
        async for listed in bucket.listing(folder):
            if folder == "blobs":
                blobs.update(count=1, bytes=listed.size)
            else:
                others += listed.size
            if folder == "catalog":
                runs[keys.mark(listed.name).run] = listed.name.split("/")[1]
            elif folder == "claims":
                held[listed.name.split("/")[1]] += 1
            elif folder == "workers":
                lives.append(listed.name.partition("/")[2])
    workers = [await _worker(store, plain, held[plain]) for plain in lives]
    counts = await _counts(store, runs)
    await store.close()
    found = tuple(worker for worker in workers if worker is not None)
    return Contents(f"obstore {obstore.__version__}", others, counts, found, blobs["count"], blobs["bytes"])


async def _counts(store: ObjectStore, status_folders: dict[str, str]) -> dict[str, int]:
    """How many runs are in which status; how those ended that are over says their shelf."""
    counts = Counter(shelf for shelf in status_folders.values() if shelf != UNFINISHED_FOLDER)
    unfinished = [RunId(run) for run, shelf in status_folders.items() if shelf == UNFINISHED_FOLDER]
    for run_index in await store._each(store._stored, unfinished):
        if run_index is not None and run_index.summary is not None:
            counts[run_index.summary.status.value] += 1
    return dict(sorted(counts.items()))


async def _worker(store: ObjectStore, plain: str, runs: int) -> Enrolled | None:
    life = await store._lease_of(plain)
    return None if life is None else Enrolled(life.worker, life.expires > await store.now(), life.expires, runs)
