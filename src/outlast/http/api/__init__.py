"""The operations of the API, by subject. To import this fills the table."""

from outlast.http.api import aliases, bulk, control, lookup, people, runs, service, workflows

__all__ = ["aliases", "bulk", "control", "lookup", "people", "runs", "service", "workflows"]
