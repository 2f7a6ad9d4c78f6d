"""Which workflows this server can start, and their versions."""

from __future__ import annotations

from outlast.functions import registry
from outlast.http import shapes as s
from outlast.http.operations import Call, operation
from outlast.http.starting import known_workflow


@operation("GET", "/workflows", "workflows:read", tag="workflows", answers=s.WorkflowListView)
async def list_workflows(_: Call) -> s.WorkflowListView:
    """List the workflows that this server can start, with their parameters."""
    names = sorted(registry.names())
    return s.WorkflowListView(workflows=tuple(s.workflow_view(known_workflow(name)) for name in names))


@operation("GET", "/workflows/{workflow}", "workflows:read", tag="workflows", answers=s.WorkflowView, refuses=(404,))
async def get_workflow(call: Call) -> s.WorkflowView:
    """Get one workflow that this server can start."""
    return s.workflow_view(known_workflow(call.path["workflow"]))


@operation(
    "GET",
    "/workflows/{workflow}/versions",
    "workflows:read",
    tag="workflows",
    answers=s.VersionListView,
    refuses=(404,),
)
async def list_versions(call: Call) -> s.VersionListView:
    """List the versions of a workflow that runs are of, the one used last first."""
    name = call.path["workflow"]
    versions = await call.engine.versions.of(name)
    return s.VersionListView(workflow=name, versions=tuple(map(s.version_view, versions)))
