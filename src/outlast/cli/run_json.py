"""The JSON that programs read about one run: all of it, how it ended, a line of its log. The promise of `shapes` holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.cli.files import File
from outlast.cli.json_views import run_shape, wait_shape
from outlast.cli.run_view import Tally, Work, status_in_words
from outlast.cli.times import iso
from outlast.client import Line, RunSummary
from outlast.history.events import Failure, Value
from outlast.lifecycle.state import Child, NodeState
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.timeline.phrases import plain_numbers


def detail_shape(summary: RunSummary, tally: Tally, files: Sequence[File] = ()) -> dict[str, Any]:
    """Everything `outlast show` knows. What the list of runs says of it comes first, and is as new as the rest."""
    outline, created = tally.state.outline, tally.created
    return {
        **run_shape(summary),
        "entry": created.entry if created else "",
        "root": created.root if created else "",
        "key": (created.key if created else "") or None,
        "params": created.params if created else None,
        "result": plain_numbers(outline.output),
        "error": failure_shape(outline.error, outline.failed_node) if outline.error else None,
        "successor": outline.successor or None,
        "nodes": [node_shape(name, node, tally.work.get(name) or Work()) for name, node in tally.state.nodes.items()],
        "retired_nodes": tally.retired,
        "steps": [{"step": name, "completed": done} for name, done in tally.state.steps.items()],
        "children": [child_shape(name, child, tally) for name, child in tally.state.children.items()],
        "files": files,
        "questions": [{**wait_shape(each), "schema": each.detail} for each in tally.questions],
    }


def node_shape(name: str, node: NodeState, work: Work) -> dict[str, Any]:
    return {
        "node": name,
        "step": work.step or None,
        "status": status_in_words(node.status),
        "attempt": node.attempt,
        "crashes": node.crashes,
        "ms": work.ms,
        "inputs": work.inputs,
        "output": node.output,
        "error": failure_shape(node.error) if node.error else None,
        "retry_at": iso(work.retry_at),
        "checkpoint": node.checkpoint,
    }


def child_shape(name: str, child: Child, tally: Tally) -> dict[str, Any]:
    return {
        "run": name,
        "workflow": tally.workflows.get(name) or None,
        "node": child.node or None,
        "status": child.status or None,
        "detached": child.detached,
        "error": failure_shape(child.error) if child.error else None,
    }


def failure_shape(error: Failure, node: str = "") -> dict[str, Any]:
    return {
        "kind": error.kind,
        "message": error.message,
        "category": error.category,
        "node": node or None,
        "trace": error.trace,
    }


def ending_shape(tally: Tally, result: Value, files: Sequence[File] = ()) -> dict[str, Any]:
    """How a run ended that was waited for; of one that is paused also the files it wrote."""
    outline = tally.state.outline
    written = {"files": files} if tally.state.status is RunStatus.PAUSED else {}
    return {
        "run": tally.run,
        "status": tally.state.status,
        "result": result,
        "error": failure_shape(outline.error, outline.failed_node) if outline.error else None,
        "held": outline.held,
        "reason": outline.reason,
        **written,
    }


def line_shape(line: Line) -> dict[str, Any]:
    return {**msgspec.structs.asdict(line), "time": iso(line.time)}
