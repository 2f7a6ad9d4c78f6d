"""THE WORKSHOP: what we test Outlast with, and what users test their own stores and workflows with.

`contract` is the suite every store passes. `faults` wraps a store so that it dies, loses answers, delivers twice or late.
`disk` is a file system for SQLite that loses what was not flushed when its power is cut, fills up, or turns read-only.
`scripted` is a small owner that drives runs from a script, is killed and taken over. `histories` makes random legal
histories. `engine` is an engine over any store, and processes that die; `leaping` a loop whose time leaps when it is idle,
`doors` a store that one process after another opens, `world` what was really done, `crashes` the loop that kills a workflow
at every store call. Nothing in the product imports from here.
"""
