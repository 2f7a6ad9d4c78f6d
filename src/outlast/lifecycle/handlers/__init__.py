"""The effect of each event on the state: one small function per event type, one module per group of events.

A handler checks first and changes afterwards, so that an illegal event raises `Illegal` and leaves the state unchanged (L2).
`fold.apply` checks the transition table before it calls a handler. `registry` maps event types to handlers.
"""
