"""Attempts of nodes: on the loop, in threads, in helper processes and on clusters.

Owns what a running node can use: its context, checkpoints, progress, log lines and output files.

R8  Whatever a node does becomes an outcome of its attempt. It harms neither the engine nor other runs.
"""
