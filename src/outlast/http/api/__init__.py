"""The operations of the API, by subject. To import this fills the table."""

from outlast.http.api import aliases, control, lookup, people, runs, service, workflows

__all__ = ["aliases", "control", "lookup", "people", "runs", "service", "workflows"]
