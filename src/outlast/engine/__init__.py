"""Advances runs: the worker, the driver of each run, and the services that keep a worker's runs and claims current.

A driver turns the commands of workflow code into appends and delivers outcomes to the code. It asks `lifecycle` which
events are allowed and writes through `ledger`. It does not depend on a concrete store.
"""
