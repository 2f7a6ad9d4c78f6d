"""Slots: one object per name lists the holders and changes by compare-and-set.

Several slots are taken in the order of their names; if one is full, those taken before are released. So two takers never
wait for each other, but a taker may be refused because of another one that is refused at the same time.

An entry in a slot's object counts only if its run confirms it, so an entry may be there too long, never too short:

- `take` and `claim` list the slots in the index of the run, then enter the run in the objects. The end of a slot leaves the
  index first, by an append (`run_index.after_append`) or by compare-and-set, then the object.
- An append that takes slots enters the run before its commit, with the seq of the append. Once the log has that event, the
  index shows whether this append or another one landed.

A process that dies in between leaves an entry that its run does not confirm. A taker that finds a slot full reads the runs
of the holders, and removes such entries before it is refused. An entry whose append is not in the log yet counts for
`UNDECIDED_S`. Then the taker creates an empty object in place of the append, and removes the entry. The slow append finds
the empty object, takes its slots again, and replaces it. So no append lands without its slots, and no time is trusted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import Damaged, StoreError
from outlast.history.ids import RunId
from outlast.store import Slot, SlotHolder
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Tag, Taken
from outlast.stores.objects.reading import Reading
from outlast.stores.objects.run_index import HeldSlot, RunIndex, fresh
from outlast.stores.objects.shared import Known
from outlast.stores.shared import check_limit, claim_not_current, slot_cursor

UNDECIDED_S = 10.0
"""Seconds for which an entry counts whose append is not in the log: about as long as a lease."""
TRUSTED_S = 5.0
"""Seconds for which a claim trusts that a holder was confirmed: a full queue is looked at often."""
_LOCKS = 64


class Entry(Struct, frozen=True, omit_defaults=True):
    """A run in the object of a slot. `first` is the first event of the append that takes the slot, 0 if none does; `time` is
    when it was entered."""

    run: RunId
    epoch: int
    until: Literal["claim", "run"] = "claim"
    first: int = 0
    time: int = 0

    def of(self, name: str) -> SlotHolder:
        return SlotHolder(name, self.run, self.epoch, self.until)


class _Stored(Struct, frozen=True):
    """The object of a slot, which is empty while nobody holds the slot."""

    name: str
    entries: tuple[Entry, ...]
    nonce: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Stored).decode

Previous = dict[str, Entry | None]
"""The entries of a run that its new ones replaced, by slot."""


class SlotObjects(Reading):
    """Implements the slots."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._slot_locks = [asyncio.Lock() for _ in range(_LOCKS)]
        self._confirmed: dict[tuple[str, Entry], float] = {}
        self._unheld: dict[RunId, str] = {}
        """Runs that held a slot and that nobody held when they were last confirmed, with their queues."""

    async def take(self, run: RunId, epoch: int, slots: Sequence[Slot]) -> tuple[SlotHolder, ...]:
        self._require_writable()
        async with self._locked(run) as known:
            run_index = await self._look(run, known)
            if run_index is None or not _is_current(run_index, epoch):
                raise claim_not_current(run, epoch)
            if full := await self._full(run, slots):
                return full
            before = run_index.slots
            if not await self._change(run, known, lambda index: _with_slots(index, epoch, slots)):
                raise claim_not_current(run, epoch)
            full, _ = await self._enter(run, epoch, slots)
            if full:
                await self._change(
                    run, known, lambda index: replace(index, slots=_reverted(index, epoch, slots, before))
                )
            return full

    async def give(self, run: RunId, epoch: int, names: Collection[str]) -> None:
        self._require_writable()
        async with self._locked(run) as known:
            await self._look(run, known)
            await self._change(run, known, lambda index: _without(index, epoch, names))
        await self._leave(run, dict.fromkeys(names, epoch))

    async def slot_holders(self, name: str = "", *, after: str = "", limit: int = 1000) -> list[SlotHolder]:
        check_limit(limit)
        since = slot_cursor(after)
        if name:
            names = [keys.slot(name)]
        else:
            names = [listed.name async for listed in self._bucket.listing("slots") if listed.size]
        found = [stored for stored, _ in await self._each(self._read_slot, names) if stored is not None]
        wanted = [(each.name, entry) for each in found for entry in each.entries if (each.name, entry.run) > since]
        wanted.sort(key=lambda each: (each[0], each[1].run))
        holders: list[SlotHolder] = []
        while wanted and len(holders) < limit:
            batch, wanted = wanted[:limit], wanted[limit:]
            confirmed = await self._each(lambda each: self._is_confirmed(*each), batch)
            holders += [entry.of(name) for (name, entry), holds in zip(batch, confirmed, strict=True) if holds]
        return holders[:limit]

    # --- entering and leaving

    async def _full(self, run: RunId, slots: Sequence[Slot], trust_s: float = 0.0) -> tuple[SlotHolder, ...]:
        """Return the holders of those slots that are full for this run, after removing those that have ended."""

        async def holders(slot: Slot) -> list[SlotHolder]:
            stored, _ = await self._read_slot(keys.slot(slot.name))
            others = [] if stored is None else [entry for entry in stored.entries if entry.run != run]
            if len(others) < slot.limit:
                return []
            ended = await self._ended(slot.name, others, trust_s)
            if not ended:
                return [entry.of(slot.name) for entry in others]
            remaining = await self._remove(slot.name, ended)
            return [entry.of(slot.name) for entry in remaining] if len(remaining) >= slot.limit else []

        return tuple(each for some in await self._each(holders, _in_order(slots)) for each in some)

    async def _enter(
        self, run: RunId, epoch: int, slots: Sequence[Slot], first: int = 0
    ) -> tuple[tuple[SlotHolder, ...], Previous]:
        """Enter the run in these slots, or in none. Return the holders of a full one, and the entries that were replaced."""
        previous: Previous = {}
        for slot in _in_order(slots):
            entry = Entry(run, epoch, slot.until, first, await self._clock.now())
            full, old = await self._enter_one(slot, entry)
            if full:
                await self._restore(run, epoch, previous)
                return tuple(each.of(slot.name) for each in full), {}
            previous[slot.name] = old
        return (), previous

    async def _enter_one(self, slot: Slot, entry: Entry) -> tuple[Sequence[Entry], Entry | None]:
        """Return the holders of the slot if it is full, else the entry of the run that the new one replaces."""
        while True:
            full, old = list[Entry](), list[Entry]()

            def entered(
                entries: Sequence[Entry], full: list[Entry] = full, old: list[Entry] = old
            ) -> Sequence[Entry] | None:
                others = [each for each in entries if each.run != entry.run]
                old[:] = [each for each in entries if each.run == entry.run]
                full[:] = others if len(others) >= slot.limit else []
                return None if full else [*others, entry]

            await self._modify(slot.name, entered)
            if not full:
                return (), old[0] if old else None
            ended = await self._ended(slot.name, full)
            if not ended:
                return full, None
            await self._remove(slot.name, ended)

    async def _restore(self, run: RunId, epoch: int, previous: Previous) -> None:
        """Give slots back: put the entries back that were replaced."""

        async def restore(name: str) -> None:
            old = previous[name]

            def restored(entries: Sequence[Entry]) -> Sequence[Entry] | None:
                if not any(each.run == run and each.epoch == epoch for each in entries):
                    return None
                others = [each for each in entries if each.run != run]
                return others if old is None else [*others, old]

            await self._modify(name, restored)

        await self._each(restore, sorted(previous))

    async def _leave(self, run: RunId, slots: Mapping[str, int]) -> None:
        """Remove the run from slots that have ended, unless it took them again under a greater epoch than this."""

        async def leave(name: str) -> None:
            def left(entries: Sequence[Entry]) -> Sequence[Entry] | None:
                kept = [each for each in entries if each.run != run or each.epoch > slots[name]]
                return None if len(kept) == len(entries) else kept

            await self._modify(name, left)

        with suppress(StoreError):  # the entries have ended: takers remove them
            await self._each(leave, slots)

    async def _leave_ended(
        self, run: RunId, old: RunIndex | None, new: RunIndex | None, taken: Mapping[str, int] = {}
    ) -> None:
        """Remove the run from the slots that ended between two of its indexes, or that it took meanwhile."""
        slots = {name: held.epoch for name, held in old.slots.items()} if old is not None else {}
        if slots or taken:
            kept = new.slots if new is not None else {}
            await self._leave(run, {name: epoch for name, epoch in {**slots, **taken}.items() if name not in kept})

    # --- confirming

    async def _ended(self, name: str, entries: Sequence[Entry], trust_s: float = 0.0) -> list[Entry]:
        """Return those of the entries that have ended."""
        now = asyncio.get_running_loop().time()
        doubted = [each for each in entries if self._confirmed.get((name, each), -TRUSTED_S) <= now - trust_s]
        holds = await self._each(lambda entry: self._is_confirmed(name, entry, decides=True), doubted)
        if len(self._confirmed) > 10_000:
            self._confirmed.clear()
            self._unheld.clear()
        self._confirmed |= {(name, entry): now for entry, is_held in zip(doubted, holds, strict=True) if is_held}
        return [entry for entry, is_held in zip(doubted, holds, strict=True) if not is_held]

    async def _is_confirmed(self, name: str, entry: Entry, *, decides: bool = False) -> bool:
        """Return whether the run confirms that it holds the slot. With `decides`, an append that is not in the log for long
        is made to check its slots again. The caller may hold the lock of another run, so this reads without a lock."""
        while True:
            known = Known()
            try:
                run_index = await self._look(entry.run, known)
            except Damaged:
                return True
            version = run_index.head.version if run_index else 0
            if known.is_deleted or entry.first <= version:
                self._unheld.pop(entry.run, None)
                if run_index is None or name not in run_index.slots:
                    return False
                if run_index.held is None and run_index.summary is not None:
                    self._unheld[entry.run] = run_index.summary.queue
                return True
            if entry.time > await self._clock.now() - int(UNDECIDED_S * 1_000_000) or not decides:
                return True
            object = keys.record(entry.run, entry.first)
            try:
                await self._bucket.create(object, b"")
                return False
            except Taken:
                found = await self._bucket.get(object)
                if found is not None and not found.body:
                    return False

    async def _remove(self, name: str, ended: Collection[Entry]) -> Sequence[Entry]:
        """Remove these entries. Return the others."""
        others: list[Entry] = []

        def removed(entries: Sequence[Entry]) -> Sequence[Entry] | None:
            others[:] = [each for each in entries if each not in ended]
            return None if len(others) == len(entries) else others

        await self._modify(name, removed)
        return others

    # --- the objects

    async def _modify(self, name: str, change: Callable[[Sequence[Entry]], Sequence[Entry] | None]) -> None:
        """Replace the entries of a slot by the result of `change`, and repeat that after a conflict. None: no change."""
        async with self._slot_locks[hash(name) % _LOCKS]:
            object, pause = keys.slot(name), 0.005
            while True:
                stored, tag = await self._read_slot(object)
                entries = change(() if stored is None else stored.entries)
                if entries is None:
                    return
                body = _encode(_Stored(name, tuple(entries), fresh())) if entries else b""
                try:
                    if tag is None:
                        await self._bucket.create(object, body)
                    else:
                        await self._bucket.update(object, body, tag)
                    return
                except Taken:
                    found = await self._bucket.get(object)
                    if found is not None and found.body == body:
                        return  # our own, sent again after its answer was lost
                await asyncio.sleep(random.random() * pause)
                pause = min(2 * pause, 0.2)

    async def _read_slot(self, object: str) -> tuple[_Stored | None, Tag | None]:
        found = await self._bucket.get(object)
        if found is None or not found.body:
            return None, None if found is None else found.tag
        try:
            return _decode(found.body), found.tag
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Damaged(f"the object {object} of a slot cannot be decoded: {error}") from error


def _in_order(slots: Sequence[Slot]) -> list[Slot]:
    """Every taker takes slots in the same order."""
    return sorted(slots, key=lambda slot: slot.name)


def _is_current(run_index: RunIndex, epoch: int) -> bool:
    return run_index.held is not None and run_index.held.epoch == epoch


def _with_slots(run_index: RunIndex, epoch: int, slots: Sequence[Slot]) -> RunIndex | None:
    """Return the index with slots that the run is about to take; None if its claim has ended."""
    if not _is_current(run_index, epoch):
        return None
    return replace(run_index, slots=run_index.slots | {slot.name: HeldSlot(epoch, slot.until) for slot in slots})


def _reverted(
    run_index: RunIndex, epoch: int, slots: Sequence[Slot], before: Mapping[str, HeldSlot]
) -> dict[str, HeldSlot]:
    """Return the slots of the index with those of this epoch as they were before."""
    reverted = {**run_index.slots}
    for name in {slot.name for slot in slots}:
        if name in reverted and reverted[name].epoch == epoch:
            del reverted[name]
            reverted |= {name: before[name]} if name in before else {}
    return reverted


def _without(run_index: RunIndex, epoch: int, names: Collection[str]) -> RunIndex | None:
    """Return the index without these slots; None if it has none of them."""
    slots = {name: held for name, held in run_index.slots.items() if name not in names or held.epoch > epoch}
    return None if len(slots) == len(run_index.slots) else replace(run_index, slots=slots)
