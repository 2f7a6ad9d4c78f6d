"""Plans of new branches: each makes a branch from the events of the current lineage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from outlast.errors import InvalidInput, NotStorable
from outlast.functions.decorators import Workflow
from outlast.functions.dry_replay import command_at
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.lifecycle import branch_plan
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.store import Store
from outlast.values.checked_text import words
from outlast.values.codec import INLINE_LIMIT, encode

Plan: TypeAlias = Callable[[Sequence[Entry]], BranchPlan]
"""From the events of the current lineage to the new branch."""


def to_place(
    to: str | int, *, inputs: dict[str, Any] | None, output: Any = msgspec.UNSET, by: str = "", reason: str = ""
) -> Plan:
    """A jump; at a node optionally with other inputs or another output."""
    by, reason, place = *signed(by, reason), str(to)
    if inputs is not None and output is not msgspec.UNSET:
        raise InvalidInput("give either inputs or output: with an output, the node is not executed again")
    if output is not msgspec.UNSET:
        given = given_by_hand(output, "output")
        return lambda log: branch_plan.instead(log, place, given, by=by, reason=reason)
    if inputs is not None:
        changed = _changed(inputs)
        return lambda log: branch_plan.again(log, place, inputs=changed, cause="jump", by=by, reason=reason)
    return lambda log: branch_plan.to_place(log, place, by=by, reason=reason)


def back(nodes: int, *, by: str = "", reason: str = "") -> Plan:
    """A rewind over the last completed nodes."""
    by, reason = signed(by, reason)
    return lambda log: branch_plan.back(log, nodes, by=by, reason=reason)


def again(node: str, feedback: Any, *, by: str = "", reason: str = "") -> Plan:
    """A retry of a node that has an outcome."""
    by, reason = signed(by, reason)
    given = feedback_of(feedback)
    return lambda log: branch_plan.again(log, node, feedback=given, by=by, reason=reason)


def leaving(plan: Plan, children: e.Children) -> Plan:
    """The same plan, with what becomes of the children started after the cutoff."""
    if children not in get_args(e.Children):
        raise InvalidInput(f'children must be "cancel" or "keep", not {children!r}')
    return lambda log: replace(plan(log), children=children)


def signed(by: str, reason: str) -> tuple[str, str]:
    """`by` and `reason`, checked as texts that the log can hold."""
    return words("by", by), words("reason", reason)


def pause_request(by: str, reason: str) -> e.PauseRequested:
    """A pause, with its texts checked."""
    by, reason = signed(by, reason)
    return e.PauseRequested(by=by, reason=reason)


def feedback_of(feedback: Any) -> e.Value:
    """A person's feedback to a node, which the log keeps."""
    return e.NULL if feedback is None else given_by_hand(feedback, "feedback")


def given_by_hand(value: Any, where: str) -> e.Value:
    """A value that a person passes to a node, which the log keeps."""
    return _within_limits(encoded(value, where), where)


def encoded(value: Any, where: str) -> e.Value:
    """The JSON of a value for a parameter whose annotation is not known here: an object of a class is written as a parameter
    of that class would be."""
    try:
        return encode(value, where=where)
    except NotStorable:
        return encode(value, type(value), where=where)


def _within_limits(raw: e.Value, where: str) -> e.Value:
    if len(raw) > INLINE_LIMIT:
        raise InvalidInput(
            f"the {where} has {len(raw)} bytes; a value that a person passes to a node may have at most 1 MB"
        )
    return raw


def _changed(inputs: dict[str, Any]) -> e.Value:
    """The arguments of a node call that are replaced."""
    raw = {name: encoded(value, f"inputs.{name}") for name, value in inputs.items()}
    return _within_limits(msgspec.Raw(msgspec.json.encode(raw)), "inputs")


async def check_edit(store: Store, run: RunId, workflow: Workflow[..., Any], new_branch: BranchPlan) -> None:
    """Raise `InvalidInput` if the edited inputs or the edited output of a branch do not fit their node.

    A replay up to the branch point finds the node. If the code does not replay, the edit is accepted: the owner of the
    run then holds it and reports the divergence."""
    for event in new_branch.then:
        match event:
            case e.NodeScheduled(node=node, inputs=inputs) if inputs is not e.NULL:
                if (command := await command_at(store, run, workflow, node, new_branch.cutoff)) is not None:
                    command.arguments.check_arguments(inputs)
            case e.NodeCompleted(node=node, output=output):
                if (command := await command_at(store, run, workflow, node, new_branch.cutoff)) is not None:
                    _check_output(command.arguments.returns.decode, node, output, command.arguments.shown)
            case _:
                pass


def _check_output(decode: Any, node: str, output: e.Value, signature: str) -> None:
    try:
        decode(output)
    except InvalidInput as error:
        raise InvalidInput(f"the output of node {node}: {error}; the signature is {signature}") from error
