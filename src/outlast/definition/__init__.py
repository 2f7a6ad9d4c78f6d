"""WHAT WAS ASKED FOR: what a workflow and its nodes are, before anything runs.

This room owns the plain descriptions that a run is started from. It refuses to run them (that is `runtime`) and to know
what became of them (`lifecycle`). It is pure.
"""
