"""The operations of the API, by subject. To import this fills the table."""

from outlast.http.api import aliases, bulk, control, people, runs, service, workflows

__all__ = ["aliases", "bulk", "control", "people", "runs", "service", "workflows"]
