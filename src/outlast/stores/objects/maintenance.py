"""Reports the contents of a bucket from a list of all names and the indexes of unfinished runs."""

from __future__ import annotations

from collections import Counter

import obstore

from outlast.history.ids import RunId
from outlast.stores.objects import ObjectStore, keys
from outlast.stores.objects.bucket import Bucket
from outlast.stores.objects.run_index import UNFINISHED_FOLDER
from outlast.stores.shared import Contents, WorkerRuns


async def look(bucket: Bucket) -> Contents:
    """Return the contents. This costs a request per thousand objects, per unfinished run and per worker."""
    store = ObjectStore(bucket, readonly=True)
    blobs, others, held = Counter[str](), 0, Counter[str]()
    runs, leases, deleted = dict[str, str](), list[str](), 0
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
            elif folder == "tombstones":
                deleted += 1
            elif folder == "workers":
                leases.append(listed.name.partition("/")[2])
    workers = [await _worker(store, plain, held[plain]) for plain in leases]
    counts = await _counts(store, runs)
    await store.close()
    found = tuple(worker for worker in workers if worker is not None)
    return Contents(
        library=f"obstore {obstore.__version__}",
        bytes=others,
        runs=counts,
        workers=found,
        blob_count=blobs["count"],
        blob_bytes=blobs["bytes"],
        deleted=deleted,
    )


async def _counts(store: ObjectStore, folders: dict[str, str]) -> dict[str, int]:
    """Count the runs by status. Finished runs are in the folder of their status."""
    counts = Counter(folder for folder in folders.values() if folder != UNFINISHED_FOLDER)
    unfinished = [RunId(run) for run, folder in folders.items() if folder == UNFINISHED_FOLDER]
    for run_index in await store._each(store._stored, unfinished):
        if run_index is not None and run_index.summary is not None:
            counts[run_index.summary.status.value] += 1
    return dict(sorted(counts.items()))


async def _worker(store: ObjectStore, plain: str, runs: int) -> WorkerRuns | None:
    lease = await store._lease_of(plain)
    return None if lease is None else WorkerRuns(lease.worker, lease.expires > await store.now(), lease.expires, runs)
