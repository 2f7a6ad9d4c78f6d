"""The names of objects.

    outlast.json                      the version of the format; created once
    clock                             written to read the time of the server
    log/{run}/{first}                 one append, named by the seq of its first event
    merged/{run}/{first}-{last}       a segment: the same appends in one object
    index/{run}                       the index of a run: values derived from its log at a version, and its holder
    slots/{slot}                      the holders of a slot
    workers/{worker}                  the lease of a worker
    scratch/{run}  lines/{run}/{first}  blobs/{two digits}/{hash}  changes/{store}
    documents/{name}                  a document
    tombstones/{run}                  the tombstone of a deleted run
    uses/{hash}/{run}                 the run names the blob
    collected/{hash}                  how far the removal of a blob is

An object of a run's index, a slot or a document that is empty is a removed one. These objects are marks:

    ready/{class}/{age}               the run needs an owner
    claims/{worker}/{class}/{age}     the worker holds the run
    due/{queue},{workflow}/{due},{rank},{key}/{age}  nobody holds the run, and a timer of it is due then
    waiting/{kind}/                   the run has a wait of this kind
    timers/{due},                     the run has a wait that is due then
    catalog/{folder}/{newness},       lists show the run, newest first
    deleting/                         the run is being deleted
    remains/{seq},                    the run is deleted; objects of it remain, also uses of blobs in its log after this seq
    old-logs/{time},                  only the log of the deleted run remains; it was fenced at this time

`{run},{nonce}` follows. The class of a run is `{queue},{workflow}/{rank},{key}`, its age `{created},`. Numbers are padded,
so names sort as numbers do. Names that are not plain are replaced by hashes. Run ids have no comma and no slash.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from outlast.lifecycle.summary import RunSummary

FORMAT = "outlast.json"
CLOCK = "clock"
WIDTH = 16
LATEST = 10**WIDTH - 1
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@=+-]*")
_LONGEST = 100
"""Characters of a plain name in a longer one: a part of a path has at most 255 on some servers."""


def number(value: int) -> str:
    """Format a number as a part of a name, limited to the range of the format."""
    return f"{min(max(value, 0), LATEST):0{WIDTH}d}"


def record(run: str, first: int) -> str:
    return f"log/{run}/{number(first)}"


def segment(run: str, first: int, last: int) -> str:
    return f"merged/{run}/{number(first)}-{number(last)}"


def run_index(run: str) -> str:
    return f"index/{run}"


def slot(name: str) -> str:
    return f"slots/{plain(name)}"


def worker(id: str) -> str:
    return f"workers/{plain(id)}"


def tombstone(run: str) -> str:
    return f"tombstones/{run}"


def scratch(run: str) -> str:
    return f"scratch/{run}"


def blob(hash: str) -> str:
    return f"blobs/{hash[:2]}/{hash}"


def collected(hash: str) -> str:
    return f"collected/{hash}"


def use(run: str, hash: str) -> str:
    return f"uses/{hash}/{run}"


def plain(name: str) -> str:
    """Return a name of a user as one part of a name, or its hash if it is not valid there."""
    if len(name) <= _LONGEST and _PLAIN.fullmatch(name):
        return name
    return "=" + hashlib.blake2b(name.encode(), digest_size=16).hexdigest() if name else "="


# --- marks: a place that follows from the index, the run, and a nonce of the writer

READY = "ready"
DUE = "due"
DELETING, REMAINS, OLD_LOGS = "deleting/", "remains/", "old-logs/"


def claims_of(worker: str) -> str:
    return f"claims/{plain(worker)}"


def by_class(folder: str, summary: RunSummary | None) -> str:
    """The place of a mark that claims find."""
    queue, workflow, rank, key, created = _class(summary)
    return f"{folder}/{queue},{workflow}/{rank},{key}/{created},"


def due_by_class(due: int, summary: RunSummary | None) -> str:
    queue, workflow, rank, key, created = _class(summary)
    return f"{DUE}/{queue},{workflow}/{number(due)},{rank},{key}/{created},"


def _class(summary: RunSummary | None) -> tuple[str, str, str, str, str]:
    """The greatest priority has the first rank."""
    if summary is None:
        return "=", "=", number(LATEST // 2), "=", number(0)
    rank, created = number(LATEST // 2 - summary.priority), number(summary.created)
    return plain(summary.queue), plain(summary.workflow), rank, plain(summary.fairness_key), created


def waiting_for(kind: str) -> str:
    return f"waiting/{kind}/"


def due_at(due: int) -> str:
    return f"timers/{number(due)},"


def in_status_folder(folder: str, created: int) -> str:
    return f"catalog/{folder}/{number(LATEST - max(created, 0))},"


def remains(seq: int) -> str:
    return f"{REMAINS}{number(seq)},"


def old_log(fenced: int) -> str:
    return f"{OLD_LOGS}{number(fenced)},"


class Mark(NamedTuple):
    """The parsed name of a mark. `place` is its key in the index."""

    place: str
    run: str
    nonce: str

    @property
    def name(self) -> str:
        return f"{self.place}{self.run},{self.nonce}"


def mark(name: str) -> Mark:
    """Parse the name of a mark."""
    rest, _, nonce = name.rpartition(",")
    cut = max(rest.rfind("/"), rest.rfind(",")) + 1
    return Mark(rest[:cut], rest[cut:], nonce)


def number_of(found: Mark) -> int:
    """Return the number in the name of a mark in `timers/`, `remains/` or `old-logs/`."""
    return int(found.place.partition("/")[2][:-1])


def due_class_of(found: Mark) -> tuple[int, str, str]:
    """Return the time, the rank and the key in the name of a mark in `due/`."""
    due, rank, key = found.place.split("/")[2].split(",")
    return int(due), rank, key


def age_of(name: str) -> str:
    """Return the last part of a mark's name: the oldest run sorts first."""
    return name.rpartition("/")[2]
