"""What advances runs: the worker, the driver of each run, and the loops that keep a worker's runs and claims current.

The driver turns commands of workflow code into appends and delivers outcomes to the code. It asks `lifecycle` what may
follow, writes through `ledger`, and does not know where bytes are kept.
"""
