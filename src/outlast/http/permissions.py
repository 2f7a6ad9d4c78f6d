"""Roles and what each may do. Every verb has a permission of its own."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Role: TypeAlias = Literal["viewer", "operator", "admin"]
Permission: TypeAlias = Literal[
    "workflows:read",
    "runs:read",
    "workers:read",
    "metrics:read",
    "runs:start",
    "runs:answer",
    "runs:pause",
    "runs:resume",
    "runs:cancel",
    "runs:retry",
    "runs:jump",
    "runs:rewind",
    "runs:fork",
    "runs:activate",
    "runs:migrate",
    "runs:repair",
    "runs:bulk",
    "runs:delete",
    "sweeper:run",
    "audit:list",
    "tokens:manage",
]
ROLES: tuple[Role, ...] = get_args(Role)
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)

VIEWER: frozenset[Permission] = frozenset(("workflows:read", "runs:read", "workers:read", "metrics:read"))
_FINAL: frozenset[Permission] = frozenset(("runs:delete",))
"""What cannot be undone."""
OPERATOR: frozenset[Permission] = VIEWER | {each for each in PERMISSIONS if each.startswith("runs:")} - _FINAL
GRANTED: dict[Role, frozenset[Permission]] = {
    "viewer": VIEWER,
    "operator": OPERATOR,
    "admin": frozenset(PERMISSIONS),
}
