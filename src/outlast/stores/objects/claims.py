"""Workers and the runs they hold, as objects.

A worker has one object with the end of its lease; one renewal covers all its runs. The holder of a run is in the run's index
object and changes by compare-and-set. Marks list the candidates: `claims/{worker}/` for runs that a worker holds or was
about to claim, `ready/` for runs that need an owner, `due/` for runs that nobody holds and that have timers. They name
queue, workflow, priority and fairness key, so that a claim lists only classes of runs that it may take (`candidates.py`).
A lease only grows, so a live worker's lease is read again only after the end that was read before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import Damaged, InvalidInput
from outlast.history.ids import RunId, WorkerId
from outlast.store import NO_INFO, Claim, Enrolled, Holding, Names, Runs, Slot, SlotsOf, WorkerInfo
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Listed, Tag, Taken
from outlast.stores.objects.candidates import Candidate, Candidates, Places, Turns, Wanted
from outlast.stores.objects.ending import EndingObjects
from outlast.stores.objects.run_index import HeldSlot, Holder, RunIndex, fresh, without_slots_of_claims
from outlast.stores.objects.slots import TRUSTED_S, Entry

log = logging.getLogger("outlast.stores")

SHORTEST_LEASE_S = 10.0
"""The shortest lease in seconds: the server's clock is known only to a second or two."""
FORGOTTEN_AFTER = 86_400_000_000
"""Microseconds until the object of a dead worker without runs is deleted."""

TRIES, TRIES_PER_RUN = 100, 3
"""Runs that a claim looks at, at most: some, and more for each run that it may return."""
STALE_US = 60_000_000
"""Microseconds from which a mark is old: then a run that was not claimed is skipped for as long."""
MANY_STALE = 10_000


class WorkerLease(Struct, frozen=True):
    """The end of a worker's lease, when it last enrolled or renewed, and what it said of itself."""

    worker: WorkerId
    expires: int
    nonce: str
    seen: int = 0
    info: WorkerInfo = NO_INFO


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerLease).decode


class ClaimObjects(EndingObjects):
    """Implements the claims."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._leases: dict[str, int] = {}
        self._lease_tags: dict[WorkerId, Tag] = {}
        self._infos: dict[WorkerId, WorkerInfo] = {}
        self._turns = Turns()
        self._stale: dict[str, float] = {}

    # --- workers

    async def enrol(self, worker: WorkerId, ttl: float, info: WorkerInfo = NO_INFO) -> None:
        self._require_writable()
        await self._check_version()
        self._infos[worker] = info
        if ttl < SHORTEST_LEASE_S:
            raise InvalidInput(f"a lease in an object store has at least {SHORTEST_LEASE_S:.0f} seconds, not {ttl:g}")
        self._lease_tags[worker] = await self._bucket.put(keys.worker(worker), await self._encoded_lease(worker, ttl))
        await self._delete_expired()

    async def renew(self, worker: WorkerId, ttl: float) -> bool:
        self._require_writable()
        await self._check_version()
        tag = self._lease_tags.get(worker)
        while True:
            if tag is None:
                found = await self._bucket.get(keys.worker(worker))
                if found is None:
                    return False
                tag = found.tag
                self._infos.setdefault(worker, _decoded_lease(found.body).info)
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
                before = await self._look(run, known)
                if (
                    await self._change(run, known, lambda run_index: _released(run_index, worker, ready=True))
                    and before
                ):
                    await self._leave_ended(run, before, known.run_index)

        held = [keys.mark(listed.name) async for listed in self._held_by(keys.plain(worker))]
        await self._each(released, [RunId(run) for run in dict.fromkeys(mark.run for mark in held)])
        await self._bucket.delete([keys.worker(worker), *(mark.name for mark in held)])
        self._lease_tags.pop(worker, None)

    async def _encoded_lease(self, worker: WorkerId, ttl: float) -> bytes:
        now, info = await self._now(), self._infos.get(worker, NO_INFO)
        return _encode(WorkerLease(worker, now + int(ttl * 1_000_000), fresh(), now, info))

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
        self,
        worker: WorkerId,
        *,
        runs: Runs = None,
        workflows: Names = None,
        queues: Names = None,
        slots: SlotsOf | None = None,
        limit: int = 1,
    ) -> list[Claim]:
        self._require_writable()
        if self._refusal is not None:
            raise self._refusal
        if runs is None:
            wanted = Wanted.of(workflows, queues)
            return [] if wanted.is_nothing else await self._claim_any(worker, wanted, slots or {}, limit)
        granted, todo = list[Claim](), list(dict.fromkeys(runs))
        while todo and len(granted) < limit:
            some, todo = todo[: limit - len(granted)], todo[limit - len(granted) :]
            claims = await self._each(lambda run: self._claimed(run, worker, None, ()), some)
            granted += [claim for claim in claims if claim is not None]
        return granted

    async def _claim_any(self, worker: WorkerId, wanted: Wanted, slots: SlotsOf, limit: int) -> list[Claim]:
        """Claim runs in turn, a few at once. The number of runs that are looked at is bounded: others may claim them too."""
        candidates = await self._candidates(worker, wanted)
        places = await self._places_of(slots, candidates.queues())
        granted, tries = list[Claim](), TRIES + TRIES_PER_RUN * limit
        for queue, place in places.items():
            unheld = sorted(place.unheld(queue, self._unheld))[: limit - len(granted)]
            claims = await self._each(partial(self._claimed, worker=worker, wanted=wanted, slots=place.slots), unheld)
            granted += [claim for claim in claims if claim is not None]
        while len(granted) < limit and tries > 0:
            chosen = await candidates.next(min(limit - len(granted), tries), places)
            if not chosen:
                break
            tries -= len(chosen)

            async def claim(each: Candidate) -> Claim | None:
                place = places.get(each.queue)
                found = await self._claimed(each.run, worker, wanted, place.slots if place else (), place)
                if found is None and (place is None or not place.are_full):
                    await self._leave_stale(each)
                return found

            granted += [claim for claim in await self._each(claim, chosen) if claim is not None]
        return granted

    async def _candidates(self, worker: WorkerId, wanted: Wanted) -> Candidates:
        """List the classes of runs of dead workers, of ready and of due ones. The cost depends on the number of workers and
        of the classes that are wanted."""
        own = keys.plain(worker)

        async def dead() -> list[str]:
            holders = [each for each in await self._bucket.folders("claims") if each != own]
            alive = await self._each(self._is_alive, holders)
            return [f"claims/{holder}" for holder, is_alive in zip(holders, alive, strict=True) if not is_alive]

        candidates = Candidates(self._bucket, self._turns, wanted, self._stale)
        now = await self._now()
        interrupted, _, _ = await asyncio.gather(
            dead(), candidates.add_folder(keys.READY, is_interrupted=False), candidates.add_due(now)
        )
        await self._each(lambda folder: candidates.add_folder(folder, is_interrupted=True), interrupted)
        return candidates

    async def _places_of(self, slots: SlotsOf, queues: Collection[str]) -> dict[str, Places]:
        """Read the holders of the slots that runs of these queues need. Those that have ended are removed from full ones."""
        needed = {keys.plain(queue): some for queue, some in slots.items() if some and keys.plain(queue) in queues}
        limits = {slot.name: slot.limit for some in needed.values() for slot in some}

        async def read(name: str) -> set[RunId]:
            stored, _ = await self._read_slot(keys.slot(name))
            entries: Sequence[Entry] = stored.entries if stored else ()
            if len(entries) >= limits[name] and (ended := await self._ended(name, entries, TRUSTED_S)):
                entries = await self._remove(name, ended)
            return {entry.run for entry in entries}

        holders = dict(zip(limits, await self._each(read, limits), strict=True))
        return {queue: Places(some, holders) for queue, some in needed.items()}

    async def _claimed(
        self,
        run: RunId,
        worker: WorkerId,
        wanted: Wanted | None,
        slots: Sequence[Slot],
        places: Places | None = None,
    ) -> Claim | None:
        """Claim a run, unless its index is damaged: damage of one run must not stop the claims of others."""
        try:
            claim = await self._claim(run, worker, wanted, slots, places)
        except Damaged as damage:
            log.error("%s", damage)
            return None
        if claim is None or not claim.previous:
            return claim
        lease = await self._lease_of(keys.plain(claim.previous))
        return replace(claim, seen=0 if lease is None else lease.seen)

    async def _claim(
        self, run: RunId, worker: WorkerId, wanted: Wanted | None, slots: Sequence[Slot], places: Places | None
    ) -> Claim | None:
        """Claim the run for this worker, if no other live worker holds it. `wanted` is None if the caller named the run."""
        async with self._locked(run) as known:
            while (run_index := await self._look(run, known)) is not None:
                if run_index.deletion is not None:
                    await self._settle(run, known)
                    continue
                held = run_index.held
                is_own = held is not None and held.worker == worker
                if wanted is not None and (is_own or not wanted.admits(run_index, await self._now())):
                    if run_index.head.closed and known.stored < run_index.head.version:
                        # Its worker died before it updated the lists.
                        await self._change(run, known, lambda run_index: run_index)
                    return None
                if held is not None and not is_own and await self._is_alive(keys.plain(held.worker)):
                    return None
                new = _granted(run_index, worker, slots)
                if not await self._change(run, known, partial(replacement, run_index, new)):
                    continue
                if slots and await self._has_no_slots(run, new.granted, slots):
                    if places is not None:
                        places.is_closed = True
                    await self._change(run, known, partial(_ungranted, run_index, new.granted))
                    return None
                cause: Literal["expired", "claimed"] = "expired" if new.interrupted else "claimed"
                return Claim(run, worker, new.granted, new.interrupted, cause)
        return None

    async def _has_no_slots(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> bool:
        full, _ = await self._enter(run, epoch, slots)
        return bool(full)

    async def _leave_stale(self, candidate: Candidate) -> None:
        """Skip an old mark for a while whose run was not claimed, and delete it if it is not in its index."""
        if len(self._stale) > MANY_STALE:
            self._stale.clear()
        if candidate.mark.time < await self._clock.now() - STALE_US:
            self._stale[candidate.mark.name] = asyncio.get_running_loop().time() + STALE_US / 1e6
        await self._sweep([candidate.mark])

    # --- releasing

    async def release(self, run: RunId, worker: WorkerId, version: int, *, ready: bool = False) -> bool:
        self._require_writable()
        async with self._locked(run) as known:
            await self._look(run, known)
            before, is_moved = known.run_index, False

            def released(run_index: RunIndex) -> RunIndex | None:
                nonlocal is_moved
                new = _released(run_index, worker, ready=ready)
                is_moved = new is not None and run_index.head.version != version
                return None if is_moved else new

            if await self._change(run, known, released) and before is not None:
                await self._leave_ended(run, before, known.run_index)
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
            Enrolled(lease.worker, lease.expires > now, lease.expires, lease.seen, lease.info)
            for lease in leases
            if lease
        ]

    async def holdings(self, worker: WorkerId | None = None, *, after: str = "", limit: int = 1000) -> list[Holding]:
        folder = "claims" if worker is None else keys.claims_of(worker)
        marks = [keys.mark(listed.name) async for listed in self._bucket.listing(folder)]
        holders = {mark.run: mark.place.split("/")[1] for mark in marks if mark.run > after}
        for run in await self._settle_deletions():
            holders.pop(run, None)
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


def _granted(run_index: RunIndex, worker: WorkerId, slots: Sequence[Slot]) -> RunIndex:
    """The interrupted worker is stored until a takeover is in the log, because the claimant may be interrupted too. The
    slots are listed before they are taken."""
    epoch = max(run_index.granted, run_index.head.epoch) + 1
    taken = run_index.slots | {slot.name: HeldSlot(epoch, slot.until) for slot in slots}
    new = replace(run_index, held=Holder(worker, epoch), granted=epoch, slots=taken)
    if run_index.held is not None and run_index.held.worker != worker:
        new = replace(new, interrupted=run_index.held.worker, since=epoch)
    return new


def _ungranted(old: RunIndex, epoch: int, now: RunIndex) -> RunIndex | None:
    """Return the index as it was before this claim, but for appends since."""
    if now.held is None or now.held.epoch != epoch:
        return None
    return replace(now, held=old.held, slots=old.slots, interrupted=old.interrupted, since=old.since)


def replacement(old: RunIndex, new: RunIndex, now: RunIndex) -> RunIndex | None:
    return new if now is old else None


def _released(run_index: RunIndex, worker: WorkerId, *, ready: bool) -> RunIndex | None:
    """Return the index without this holder; None if another worker or none holds the run."""
    if run_index.held is None or run_index.held.worker != worker:
        return None
    slots = run_index.slots
    if run_index.interrupted in ("", worker):  # else that worker may still append, until a takeover is in the log
        slots = without_slots_of_claims(slots, run_index.held.epoch)
    return replace(run_index, held=None, head=replace(run_index.head, ready=ready), slots=slots)
