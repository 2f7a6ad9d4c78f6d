"""The names of objects.

    outlast.json                      the version of the format; created once
    clock                             written to read the time of the server
    log/{run}/{first}                 one append, named by the seq of its first event; never changed or removed
    merged/{run}/{first}-{last}       a segment: the same appends in one object
    sheet/{run}                       the index of a run: values derived from its log at a version, and its holder
    ready/{run},{nonce}               a mark: the run needs an owner
    claims/{worker}/{run},{nonce}     a mark: the worker holds the run
    waiting/{kind}/{run},{nonce}      a mark: the run has a wait of this kind
    timers/{due},{run},{nonce}        a mark: the run has a wait that is due then
    catalog/{folder}/{age},{run},{nonce}  a mark: lists show the run, newest first
    workers/{worker}                  the lease of a worker
    scratch/{run}  lines/{run}/{first}  blobs/{two digits}/{hash}  news/{store}
    documents/{name}                  a document; an empty object is a removed one

Numbers are padded, so names sort as numbers do. Run ids have no comma, and worker ids in names have no slash.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

FORMAT = "outlast.json"
CLOCK = "clock"
WIDTH = 16
LATEST = 10**WIDTH - 1
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@=+-]{0,199}")


def number(value: int) -> str:
    """Format a number as a part of a name, limited to the range of the format."""
    return f"{min(max(value, 0), LATEST):0{WIDTH}d}"


def record(run: str, first: int) -> str:
    return f"log/{run}/{number(first)}"


def segment(run: str, first: int, last: int) -> str:
    return f"merged/{run}/{number(first)}-{number(last)}"


def run_index(run: str) -> str:
    return f"sheet/{run}"


def worker(id: str) -> str:
    return f"workers/{plain(id)}"


def plain(id: str) -> str:
    """Return a worker's id as one part of a name, or its hash if the id is not valid there."""
    return id if _PLAIN.fullmatch(id) else "=" + hashlib.blake2b(id.encode(), digest_size=16).hexdigest()


# --- marks: a place that follows from the index, the run, and a nonce of the writer

READY = "ready/"


def claimed_by(id: str) -> str:
    return f"claims/{plain(id)}/"


def waiting_for(kind: str) -> str:
    return f"waiting/{kind}/"


def due_at(due: int) -> str:
    return f"timers/{number(due)},"


def in_status_folder(folder: str, created: int) -> str:
    return f"catalog/{folder}/{number(LATEST - max(created, 0))},"


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


def due_of(found: Mark) -> int:
    return int(found.place[len("timers/") : -1])


def kind_of(found: Mark) -> str:
    return found.place.split("/")[1]
