"""What workflow code sees: decorators, calls, verbs, and the deterministic loop that it runs on.

Owns the commands that workflow code issues, their names, and replay. It appends nothing and runs no nodes: the engine does.

R6  A command takes effect only after the append that records it has landed. Outcomes are delivered in the order of the log,
    live and in replay.
R7  Code and log that disagree hold the run. Nothing is guessed, and the log is not changed.
"""
