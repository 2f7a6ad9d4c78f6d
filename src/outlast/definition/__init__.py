"""Definitions of workflows and nodes: what a run is started from.

This package is pure. It owns the specs of nodes and workflows, retry policies and durations. It executes nothing (`engine`,
`execution`) and knows no states of runs (`lifecycle`).
"""
