"""THE CARETAKER: what is done for a store as a whole, whatever the runs in it do meanwhile.

It tells how a store stands, makes a copy, and writes runs out as text. It knows stores
in an SQLite file and in PostgreSQL, which brings its own program for copies; a store in memory ends with its process and
needs no care.

What holds here:

U1  Looking changes nothing, and nothing is made where no store was.
U2  A copy is whole: the database first, as it was at one moment, then the blobs. A blob is durable before an event names it,
    so whatever the copied log names was there to be copied.
U3  A copy replaces nothing. It stands at its place only when all of it is durable and was opened again; a copy that fails
    leaves nothing there.
"""

from __future__ import annotations

from outlast.upkeep.copying import Copied, Tell, back_up
from outlast.upkeep.exporting import exported
from outlast.upkeep.standing import Info, Worker, inspect

__all__ = ["Copied", "Info", "Tell", "Worker", "back_up", "exported", "inspect"]
