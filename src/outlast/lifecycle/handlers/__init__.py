"""What each event does to the state: one small function per event type, one module per group of events.

A handler checks first and changes afterwards, so that an illegal event raises `Illegal` and leaves the state as it was (L2).
It may trust the table: `fold.apply` has asked it. `registry` is where handlers are found.
"""
