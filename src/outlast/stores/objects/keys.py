"""How objects are named.

    outlast.json                      what this is: the version of the format; made once
    clock                             written to learn the time of the server
    log/{run}/{first}                 one append, named by the seq of its first event; created, never changed, never removed
    merged/{run}/{first}-{last}       the same appends in one object, to be read at once
    sheet/{run}                       all that follows from a log up to a version, and who holds the run
    ready/{run},{nonce}               a mark: the run wants an owner
    claims/{worker}/{run},{nonce}     a mark: the worker holds the run
    waiting/{kind}/{run},{nonce}      a mark: the run waits for something of that kind
    timers/{due},{run},{nonce}        a mark: something of the run is due then
    catalog/{shelf}/{age},{run},{nonce}  a mark: the run is in lists, the newest first
    workers/{worker}                  until when a worker lives
    scratch/{run}  lines/{run}/{first}  blobs/{two digits}/{hash}  news/{door}
    documents/{name}                  a small value of a service; an empty one was removed

Numbers are padded, so that names sort as numbers do. A comma is in no run id, a slash in no name of a worker that is kept
as it is.
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
    """A number as a part of a name: those that no log or clock can hold are drawn to the nearest that one can."""
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
    """A worker's id as one part of a name; one that cannot be one is replaced by its hash."""
    return id if _PLAIN.fullmatch(id) else "=" + hashlib.blake2b(id.encode(), digest_size=16).hexdigest()


# --- marks: a place that follows from the sheet, the run, and a nonce of whoever put it

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
    """A mark that was found in a list. `place` is what the sheet calls it."""

    place: str
    run: str
    nonce: str

    @property
    def name(self) -> str:
        return f"{self.place}{self.run},{self.nonce}"


def mark(name: str) -> Mark:
    """The parts of a mark's name."""
    rest, _, nonce = name.rpartition(",")
    cut = max(rest.rfind("/"), rest.rfind(",")) + 1
    return Mark(rest[:cut], rest[cut:], nonce)


def due_of(found: Mark) -> int:
    return int(found.place[len("timers/") : -1])


def kind_of(found: Mark) -> str:
    return found.place.split("/")[1]
