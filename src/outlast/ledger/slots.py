"""The slots of runs: places in a limited queue, and exclusive keys.

A run of a limited queue holds a slot of the queue while it is claimed.

Of the runs with one exclusive key, one is live at a time: the key is a slot with the lifetime of the run. A run takes it
with the append that makes it live, and frees it with the one that ends, pauses or holds it. So it keeps the key while it
waits and no worker holds its claim.
"""

from __future__ import annotations

from outlast.errors import NotAllowed
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger.blob_names import Kinds
from outlast.lifecycle.state import Outline
from outlast.store import Lost, Slot

_PREFIX = "exclusive/"


def queue_slot(name: str, limit: int = 1) -> Slot:
    """The slot of a queue of which at most `limit` runs are claimed at once."""
    return Slot(f"queue/{name}", limit)


def exclusive_slot(key: str, *, succeeds: bool = False) -> Slot:
    """The slot of a key. A run that `succeeds` another one takes it beside its predecessor, which then gives it back: so no
    third run gets the key in between."""
    return Slot(_PREFIX + key, 2 if succeeds else 1, "run")


def slot_changes(before: Outline, after: Outline, kinds: Kinds) -> tuple[tuple[Slot, ...], bool]:
    """The slots that an append of these types of events takes, and whether it frees those of the run. A run may begin and
    end in one append: then it does both."""
    if not after.exclusive:
        return (), False
    begins = not before.is_live and (after.is_live or e.RunStarted in kinds)
    if begins and e.CleanupStarted in kinds and e.RunStarted not in kinds:
        return (), False  # nothing keeps a stopped run from being cancelled
    ends = not after.is_live and (before.is_live or begins) and e.RunContinued not in kinds
    return (exclusive_slot(after.exclusive),) if begins else (), ends


def refused(lost: Lost, run: RunId) -> NotAllowed:
    """The error for an append that did not get its slot."""
    holder = lost.full[0]
    key = holder.name.removeprefix(_PREFIX)
    return NotAllowed(
        f"exclusive key {key!r} is held by live run {holder.run}: wait for its end or cancel it, then start or resume run "
        f"{run}"
    )
