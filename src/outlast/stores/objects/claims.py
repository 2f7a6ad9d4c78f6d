"""Workers and the runs they hold, as objects.

A worker has one object with the end of its lease; one renewal covers all its runs. The holder of a run is in the run's index
object and changes by compare-and-set. Marks list the candidates: `ready/` for runs that need an owner, `claims/{worker}/`
for runs that a worker holds or was about to claim. A lease only grows, so a live worker's lease is read again only after the
end that was read before.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import Damaged, InvalidInput
from outlast.history.ids import RunId, WorkerId
from outlast.store import Claim, Enrolled, Holding, Names, Runs
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Listed, Tag, Taken
from outlast.stores.objects.run_index import Holder, RunIndex, fresh
from outlast.stores.objects.shared import ObjectStoreBase

log = logging.getLogger("outlast.stores")

SHORTEST_LEASE_S = 10.0
"""The shortest lease in seconds: the server's clock is known only to a second or two."""
FORGOTTEN_AFTER = 86_400_000_000
"""Microseconds until the object of a dead worker without runs is deleted."""


class WorkerLease(Struct, frozen=True):
    """The end of a worker's lease, when it last enrolled or renewed, and the workflows it knows."""

    worker: WorkerId
    expires: int
    nonce: str
    seen: int = 0
    workflows: tuple[str, ...] = ()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerLease).decode


class ClaimObjects(ObjectStoreBase):
    """Implements the claims."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._leases: dict[str, int] = {}
        self._lease_tags: dict[WorkerId, Tag] = {}
        self._workflows: dict[WorkerId, tuple[str, ...]] = {}

    # --- workers

    async def enrol(self, worker: WorkerId, ttl: float, workflows: Collection[str] = ()) -> None:
        self._require_writable()
        self._workflows[worker] = tuple(sorted(workflows))
        if ttl < SHORTEST_LEASE_S:
            raise InvalidInput(f"a lease in an object store has at least {SHORTEST_LEASE_S:.0f} seconds, not {ttl:g}")
        self._lease_tags[worker] = await self._bucket.put(keys.worker(worker), await self._encoded_lease(worker, ttl))
        await self._delete_expired()

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        self._require_writable()
        tag = self._lease_tags.get(worker)
        while True:
            if tag is None:
                found = await self._bucket.get(keys.worker(worker))
                if found is None:
                    return False
                tag = found.tag
                self._workflows.setdefault(worker, _decoded_lease(found.body).workflows)
            body = await self._encoded_lease(worker, ttl)
            try:
                self._lease_tags[worker] = await self._bucket.update(keys.worker(worker), body, tag)
                return True
            except Taken:
                found = await self._bucket.get(keys.worker(worker))
                tag = found.tag if found else None
                if found is None or found.body == body:
                    self._lease_tags.pop(worker, None)
                    return found is not None

    async def retire(self, worker: WorkerId) -> None:
        self._require_writable()

        async def released(run: RunId) -> None:
            async with self._locked(run) as known:
                await self._look(run, known)
                await self._change(run, known, lambda run_index: _released(run_index, worker, ready=True))

        held = [keys.mark(listed.name) async for listed in self._held_by(keys.plain(worker))]
        await self._each(released, [RunId(run) for run in dict.fromkeys(mark.run for mark in held)])
        await self._bucket.delete([keys.worker(worker), *(mark.name for mark in held)])
        self._lease_tags.pop(worker, None)

    async def _encoded_lease(self, worker: WorkerId, ttl: float) -> bytes:
        now, workflows = await self._now(), self._workflows.get(worker, ())
        return _encode(WorkerLease(worker, now + int(ttl * 1_000_000), fresh(), now, workflows))

    async def _expires(self, worker: str) -> int:
        """Return the end of a worker's lease, 0 if the worker is unknown."""
        lease = await self._lease_of(worker)
        self._leases[worker] = 0 if lease is None else lease.expires
        return self._leases[worker]

    async def _lease_of(self, plain: str) -> WorkerLease | None:
        found = await self._bucket.get(f"workers/{plain}")
        return None if found is None else _decoded_lease(found.body)

    async def _is_alive(self, worker: str) -> bool:
        now = await self._now()
        return self._leases.get(worker, 0) > now or await self._expires(worker) > now

    async def _delete_expired(self) -> None:
        now, clock = await self._now(), await self._clock.now()
        names = [each.name async for each in self._bucket.listing("workers") if each.time < clock - FORGOTTEN_AFTER]
        for name in names:
            plain = name.partition("/")[2]
            holds = [each async for each in self._held_by(plain)]
            if not holds and await self._expires(plain) < now - FORGOTTEN_AFTER:
                await self._bucket.delete([name])

    def _held_by(self, plain: str) -> AsyncIterator[Listed]:
        return self._bucket.listing(f"claims/{plain}")

    # --- claiming

    async def claim(
        self, worker: WorkerId, *, runs: Runs = None, workflows: Names = None, limit: int = 1
    ) -> list[Claim]:
        self._require_writable()
        named = runs is not None
        granted: list[Claim] = []
        todo = list(dict.fromkeys(runs)) if runs is not None else await self._candidates(worker, workflows)
        while todo and len(granted) < limit:
            some, todo = todo[: limit - len(granted)], todo[limit - len(granted) :]
            claims = await self._each(lambda run: self._claimed(run, worker, named, workflows), some)
            granted += [claim for claim in claims if claim is not None]
        return granted

    async def _claimed(
        self, run: RunId, worker: WorkerId, named: bool, workflows: Collection[str] | None
    ) -> Claim | None:
        """Claim a run, unless its index is damaged: damage of one run must not stop the claims of others."""
        try:
            return await self._claim(run, worker, named, workflows)
        except Damaged as damage:
            log.error("%s", damage)
            return None

    async def _candidates(self, worker: WorkerId, workflows: Collection[str] | None) -> list[RunId]:
        """Return runs of dead workers, then runs marked ready. The cost depends on their number and that of the workers."""
        if workflows is not None and not workflows:
            return []
        own, found = keys.plain(worker), list[str]()
        ready = [listed async for listed in self._bucket.listing("ready")]
        for holder in await self._bucket.folders("claims"):
            if holder != own and not await self._is_alive(holder):
                ready = [*[listed async for listed in self._held_by(holder)], *ready]
        found += [keys.mark(listed.name).run for listed in ready]
        await self._sweep(ready)
        return [RunId(run) for run in dict.fromkeys(found)]

    async def _claim(
        self, run: RunId, worker: WorkerId, named: bool, workflows: Collection[str] | None
    ) -> Claim | None:
        """Claim the run for this worker, if no other live worker holds it."""
        async with self._locked(run) as known:
            while (run_index := await self._look(run, known)) is not None:
                held = run_index.held
                is_own = held is not None and held.worker == worker
                if not named and not _is_claimable(run_index, is_own, workflows):
                    if run_index.head.closed and known.stored < run_index.head.version:
                        # Its worker died before it updated the lists.
                        await self._change(run, known, lambda run_index: run_index)
                    return None
                if held is not None and not is_own and await self._is_alive(keys.plain(held.worker)):
                    return None
                new = _granted(run_index, worker)
                if await self._change(run, known, partial(_replacement, run_index, new)):
                    if not new.interrupted:
                        return Claim(run, worker, new.granted)
                    lease = await self._lease_of(keys.plain(WorkerId(new.interrupted)))
                    seen = 0 if lease is None else lease.seen
                    return Claim(run, worker, new.granted, new.interrupted, "expired", seen)
        return None

    # --- releasing

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        self._require_writable()
        async with self._locked(run) as known:
            await self._look(run, known)
            is_moved = False

            def released(run_index: RunIndex) -> RunIndex | None:
                nonlocal is_moved
                new = _released(run_index, worker, ready=ready)
                is_moved = new is not None and run_index.head.version != version
                return None if is_moved else new

            await self._change(run, known, released)
            return not is_moved

    # --- reading

    async def holding(self, run: RunId) -> Holding | None:
        async with self._locked(run) as known:
            run_index = await self._look(run, known)
        if run_index is None or run_index.held is None:
            return None
        lease = await self._lease_of(keys.plain(run_index.held.worker))
        expires, seen = (0, 0) if lease is None else (lease.expires, lease.seen)
        return Holding(run, run_index.held.worker, expires, expires > await self._now(), seen)

    async def workers(self) -> list[Enrolled]:
        names = [listed.name.partition("/")[2] async for listed in self._bucket.listing("workers")]
        leases, now = [await self._lease_of(plain) for plain in names], await self._now()
        return [
            Enrolled(lease.worker, lease.expires > now, lease.expires, lease.seen, lease.workflows)
            for lease in leases
            if lease
        ]

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        folder = "claims" if worker is None else f"claims/{keys.plain(worker)}"
        marks = [keys.mark(listed.name) async for listed in self._bucket.listing(folder)]
        holders = {mark.run: mark.place.split("/")[1] for mark in marks if mark.run > after}
        shown = sorted(holders)[: max(limit, 0)]
        leases: dict[str, WorkerLease | None] = {}
        for plain in {holders[run] for run in shown}:
            leases[plain] = await self._lease_of(plain)
        now = await self._now()
        return [_holding(RunId(run), holders[run], leases[holders[run]], now) for run in shown]


def _decoded_lease(body: bytes) -> WorkerLease:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"the registration of a worker in the bucket cannot be decoded: {error}") from error


def _holding(run: RunId, plain: str, lease: WorkerLease | None, now: int) -> Holding:
    if lease is None:
        return Holding(run, WorkerId(plain), 0, False)
    return Holding(run, lease.worker, lease.expires, lease.expires > now, lease.seen)


def _is_claimable(run_index: RunIndex, is_own: bool, workflows: Collection[str] | None) -> bool:
    """Return whether a worker that names no runs can claim this one: it is interrupted, or ready."""
    if workflows is not None and (run_index.summary is None or run_index.summary.workflow not in workflows):
        return False
    return not is_own and (run_index.held is not None or (run_index.head.ready and not run_index.head.closed))


def _granted(run_index: RunIndex, worker: WorkerId) -> RunIndex:
    """The interrupted worker is stored until a takeover is in the log, because the claimant may be interrupted too."""
    epoch = max(run_index.granted, run_index.head.epoch) + 1
    new = replace(run_index, held=Holder(worker, epoch), granted=epoch)
    if run_index.held is not None and run_index.held.worker != worker:
        new = replace(new, interrupted=run_index.held.worker, since=epoch)
    return new


def _replacement(old: RunIndex, new: RunIndex, now: RunIndex) -> RunIndex | None:
    return new if now is old else None


def _released(run_index: RunIndex, worker: WorkerId, *, ready: bool) -> RunIndex | None:
    """Return the index without this holder; None if another worker or none holds the run."""
    if run_index.held is None or run_index.held.worker != worker:
        return None
    return replace(run_index, held=None, head=replace(run_index.head, ready=ready))
