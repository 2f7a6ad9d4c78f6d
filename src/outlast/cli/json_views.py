"""The JSON that programs read. Names here are a promise: fields are added, never renamed; times are ISO 8601 in UTC."""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.cli.times import iso
from outlast.client import Entry, RunSummary, Verification
from outlast.history.events import Event
from outlast.lifecycle.state import Wait
from outlast.maintenance import Copied, Info

TIMES = frozenset({"due", "retry_at"})
"""Fields of events that are times."""


def run_shape(summary: RunSummary) -> dict[str, Any]:
    return {
        "run": summary.run,
        "workflow": summary.workflow,
        "status": summary.status,
        "kind": summary.kind,
        "title": summary.title,
        "tags": summary.tags,
        "parent": summary.parent or None,
        "version": summary.version,
        "created": iso(summary.created),
        "updated": iso(summary.updated),
        "branch": summary.branch,
        "at": summary.at,
        "done_nodes": summary.done_nodes,
        "reason": summary.reason,
        "recoverable": summary.recoverable,
        "held": summary.held,
        "waiting": summary.waiting,
        "waits": [wait_shape(wait) for wait in summary.waits],
    }


def wait_shape(wait: Wait) -> dict[str, Any]:
    return {"kind": wait.kind, "id": wait.id, "node": wait.node, "due": iso(wait.due), "text": wait.text}


def event_shape(entry: Entry) -> dict[str, Any]:
    """Its own fields are kept apart: some events have a `branch` that is not the one they stand on."""
    return {
        "seq": entry.seq,
        "branch": entry.branch,
        "time": iso(entry.time),
        "type": type(entry.event).__name__,
        "fields": fields_of(entry.event),
    }


def fields_of(event: Event) -> dict[str, Any]:
    """Every field, those at their defaults and those of newer versions too; users' values in the JSON they were given in."""
    known = {
        name: iso(value) if name in TIMES else value
        for name, value in msgspec.structs.asdict(event).items()
        if name != "more"
    }
    return {**(event.more or {}), **known}


def verification_shape(verification: Verification) -> dict[str, Any]:
    return {
        "run": verification.run,
        "sound": verification.is_sound,
        "events": verification.events,
        "appends": verification.appends,
        "branches": verification.branches,
        "status": verification.status,
        "digest": verification.digest,
        "violations": [
            {"invariant": found.invariant, "seq": found.seq, "message": found.message}
            for found in verification.violations
        ],
    }


def info_shape(info: Info) -> dict[str, Any]:
    return {
        "path": str(info.path),
        "bytes": info.bytes,
        "wal_bytes": info.wal_bytes,
        "schema": info.schema,
        info.kind: info.library,
        "runs": info.runs,
        "blobs": {"path": str(info.blobs), "count": info.blob_count, "bytes": info.blob_bytes},
        "workers": [
            {"worker": worker.id, "live": worker.is_live, "expires": iso(worker.expires), "runs": worker.runs}
            for worker in info.workers
        ],
    }


def copy_shape(copied: Copied) -> dict[str, Any]:
    return {
        "path": str(copied.path),
        "bytes": copied.bytes,
        "runs": copied.runs,
        "blobs": {"path": str(copied.blobs), "count": copied.blob_count, "bytes": copied.blob_bytes},
        "damaged": copied.damaged,
        "missing": copied.missing,
    }
