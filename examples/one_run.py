"""One run, written by hand with the ledger, as an engine does it.

A worker creates a run and executes a node. It asks a question, which a guest answers. It dies in the middle of the
next node; another worker takes over, retries that node and finishes. Afterwards: `outlast events order-1`, `outlast
verify`.
"""

import asyncio
import sys
from pathlib import Path

from msgspec import Raw

from outlast.errors import AlreadyExists, Fenced
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger import Ledger
from outlast.stores.sqlite import SqliteStore

ORDER = RunId("order-1")
TTL = 30.0


async def main(path: Path) -> None:
    store = SqliteStore(path, blobs=path.parent / "blobs")
    first = Ledger(store)
    worker = first.new_worker_id()
    await store.enrol(worker, TTL)

    created = e.RunCreated(workflow="order", params=Raw(b'{"item":"lamp"}'), tags=("demo",))
    writer = await first.create(
        ORDER, [created, e.RunStarted(), e.NodeScheduled(node="reserve"), e.NodeStarted(node="reserve")], worker
    )
    await writer.append(
        [
            e.NodeCompleted(node="reserve", output=Raw(b'"shelf 7"'), ms=12.5),
            e.InteractionRequested(interaction="ship", prompt="Ship the lamp?", kind="approve"),
        ]
    )
    print(f"{ORDER} is {writer.state.status}: it asks whether to ship the lamp")

    await Ledger(store).deliver(ORDER, [e.InteractionAnswered(interaction="ship", answer=Raw(b"true"), by="ann")])
    await writer.append([e.NodeScheduled(node="ship"), e.NodeStarted(node="ship")])
    print(f"ann said yes; {ORDER} is {writer.state.status}, and its worker goes silent")

    (path.parent / f"{path.name}.workers" / f"{worker}.lock").unlink()  # a worker is alive while it holds this lock
    elsewhere = SqliteStore(path, blobs=path.parent / "blobs")
    elsewhere.skew = int(TTL * 2 * 1_000_000)  # a minute later, by the store's clock
    second = Ledger(elsewhere)
    other = second.new_worker_id()
    await elsewhere.enrol(other, TTL)
    (claim,) = await elsewhere.claim(other, runs=[ORDER])
    successor = await second.take_over(claim)
    print(f"another worker took over under epoch {claim.epoch}: node ship gets its second attempt")

    try:
        await writer.append([e.NodeCompleted(node="ship")])
    except Fenced as refusal:
        print(f"the first worker wakes up too late: {refusal}")

    await successor.append([e.NodeStarted(node="ship", attempt=2)])
    await successor.append(
        [
            e.NodeCompleted(node="ship", attempt=2, output=Raw(b'"parcel 99"')),
            e.RunCompleted(output=Raw(b'"parcel 99"')),
        ],
        release=True,
    )
    print(f"{ORDER} is {successor.state.status}, {successor.head.version} events, digest {successor.head.digest.hex()}")
    await elsewhere.retire(other)
    await elsewhere.close()
    await store.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".outlast/runs.db")))
    except AlreadyExists:
        sys.exit("the store has an order-1 already: remove .outlast/ or give another path")
