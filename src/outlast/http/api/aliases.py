"""Routes under /api/workflows that mean a run by `workflow`: the same operations under other paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from outlast.errors import NotFound
from outlast.http.api.control import cancel_run, resume_run
from outlast.http.api.people import approve_run, reject_run
from outlast.http.operations import OPERATIONS, Call, operation
from outlast.http.permissions import Permission


def _alias(verb: str, permission: Permission, handler: Callable[..., Awaitable[Any]]) -> None:
    @wraps(handler)
    async def alias(call: Call, body: Any) -> Any:
        if await call.state.store.head(call.path["run"]) is None:  # type: ignore[arg-type]
            raise NotFound("Workflow not found")
        return await handler(call, body)

    alias.__doc__ = f"{verb.capitalize()} a run: the same as `POST /api/v1/runs/{{run}}/{verb}`."
    example = next(each.example for each in OPERATIONS if each.handler is handler)
    options: dict[str, Any] = {
        "example": example,
        "base": "/api/workflows",
        "tag": "aliases",
        "id": f"{verb}_workflow",
        "refuses": (409,),
    }
    operation("POST", f"/{{run}}/{verb}", permission, **options)(alias)


_alias("resume", "runs:resume", resume_run)
_alias("cancel", "runs:cancel", cancel_run)
_alias("approve", "runs:answer", approve_run)
_alias("reject", "runs:answer", reject_run)
