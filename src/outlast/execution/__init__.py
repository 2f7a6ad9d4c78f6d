"""Runs attempts of nodes: on the loop, in threads, in helper processes and on clusters.

Owns the functions that a running node can call: context, checkpoints, progress, log lines and output files.

R8  Every way in which a node ends is an outcome of its attempt. It affects neither the engine nor other runs.
"""
