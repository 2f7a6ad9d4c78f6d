"""What workflow code sees: decorators, calls, verbs, and the deterministic loop that executes it.

This package owns the commands that workflow code issues, their names, and replay. It appends no events and executes no
nodes: the engine does.

R6  A command takes effect only after the append that records it has landed. Outcomes are delivered in the order of the log,
    live and in replay.
R7  If code and log disagree, the run is held. Nothing is guessed, and the log is not changed.
"""
