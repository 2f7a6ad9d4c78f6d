"""THE ONE PEN: the only writer of facts.

This room owns every append: it numbers events, checks them against the state before a byte is written, chains their digest,
shares flushes between runs (`group`), settles what a failing store left open, takes in what guests wrote, and announces what
landed. It refuses to decide what is true (that is `lifecycle`, asked by the drivers) and to know where bytes are kept.

Two kinds of writers:

- An *owner* holds the run's claim and writes through a `RunWriter`, under its epoch, whatever the transition table
allows. The
  state it holds is always a fold of durable facts; what is being appended is drafted over it.
- A *guest* (`Ledger.deliver`) holds nothing. It reads the head and the wait it wants to end, never folds, and leaves the run
  ready. An owner that collides with a guest's data takes it in, renumbers its own append and goes on; a guest's request
  (pause, cancel, jump) makes it decide again.

What holds here:

W1  Nothing is acknowledged before it is durable; nothing unacknowledged is repeated without asking whether it landed.
W2  An owner that was taken over gets `Fenced` and its log is not touched.
W3  An illegal event is refused before it is written, so a log that this room wrote has no violations.
"""

from outlast.ledger.ledger import Ledger
from outlast.ledger.writer import RunWriter

__all__ = ["Ledger", "RunWriter"]
