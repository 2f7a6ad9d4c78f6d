"""Routes under /api/workflows that mean a run by `workflow`: the same operations under other paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from outlast.errors import NotFound
from outlast.http import requests as r
from outlast.http.api.control import cancel_run, resume_run
from outlast.http.api.people import approve_run, reject_run
from outlast.http.operations import Call, operation
from outlast.http.permissions import Permission
from outlast.views import server as s
from outlast.views import types as v


def _alias(
    verb: str, permission: Permission, handler: Callable[[Call], Awaitable[Any]], body: type[r.Body], answers: Any
) -> None:
    async def alias(call: Call) -> Any:
        if await call.state.store.head(call.path["run"]) is None:  # type: ignore[arg-type]
            raise NotFound("Workflow not found")
        return await handler(call)

    alias.__doc__ = f"{verb.capitalize()} a run: the same as `POST /api/v1/runs/{{run}}/{verb}`."
    options: dict[str, Any] = {"body": body, "body_required": False, "answers": answers, "refuses": (404, 409)}
    operation(
        "POST", f"/{{run}}/{verb}", permission, base="/api/workflows", tag="aliases", id=f"{verb}_workflow", **options
    )(alias)


_alias("resume", "runs:resume", resume_run, r.ResumeBody, s.ResumedView)
_alias("cancel", "runs:cancel", cancel_run, r.CancelBody, s.ControlView)
_alias("approve", "runs:answer", approve_run, r.DecisionBody, v.AnswerView)
_alias("reject", "runs:answer", reject_run, r.DecisionBody, v.AnswerView)
