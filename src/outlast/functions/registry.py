"""The workflows that this process knows, by name: a worker claims their runs, and a run finds its code here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.errors import InvalidInput

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow

_workflows: dict[str, Workflow[..., Any]] = {}


def register(name: str, workflow: Workflow[..., Any]) -> None:
    """Register the workflow. Two workflows of one name are an error; a workflow that is defined again, by a reload, is
    replaced."""
    known = _workflows.get(name)
    if known is not None and not _is_same(known, workflow):
        raise InvalidInput(
            f"two workflows are named {name}: {known._spec.entry} and {workflow._spec.entry}; "
            f'rename one of them with @workflow(name="…")'
        )
    _workflows[name] = workflow


def _is_same(one: Workflow[..., Any], other: Workflow[..., Any]) -> bool:
    """Compare where they are defined: a script is `__main__` when it is run and has its own name when it is imported."""
    if one._spec.entry == other._spec.entry:
        return True
    return one.fn.__code__.co_filename == other.fn.__code__.co_filename and one.fn.__qualname__ == other.fn.__qualname__


def known(name: str) -> Workflow[..., Any] | None:
    """The workflow of that name."""
    return _workflows.get(name)


def names() -> tuple[str, ...]:
    """The names of all workflows."""
    return tuple(_workflows)


def user_names() -> tuple[str, ...]:
    """The names of the workflows that users defined; those of Outlast itself begin with `outlast.`."""
    return tuple(name for name in _workflows if not name.startswith("outlast."))
