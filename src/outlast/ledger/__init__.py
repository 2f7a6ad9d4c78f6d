"""The ledger: the only writer of events.

This package owns every append: it numbers events, checks them against the state before a byte is written, chains the
digests, shares flushes between runs (`group_commit`), settles unknown outcomes of a failing store, reads the events of
guests, and announces durable appends. The caller decides which events to append (with `lifecycle`), and the store keeps the
bytes.

There are two kinds of writers:

- An *owner* holds the run's claim and appends through a `RunWriter`, under its epoch, whatever the transition table allows.
  Its state is always a fold of durable events; the events of a pending append are only in a draft over that state.
- A *guest* (`Ledger.deliver`) holds no claim. It reads the head and the wait that it wants to end, never folds, and leaves
  the run ready. An owner that collides with a guest's data folds it, renumbers its own append and continues; after a guest's
  request (pause, cancel, jump) the owner decides again.

Promises:

W1  An append is acknowledged only after it is durable. An append of unknown outcome is repeated only if it did not land.
W2  An owner whose run was taken over gets `Fenced`, and its append changes nothing.
W3  An illegal event is refused before it is written, so a log written by this package has no violations.
"""

from outlast.ledger.ledger import Ledger
from outlast.ledger.writer import RunWriter

__all__ = ["Ledger", "RunWriter"]
