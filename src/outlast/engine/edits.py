"""Checks inputs and outputs that a person gives a node against its signature, before anything is appended."""

from __future__ import annotations

from typing import Any

from outlast.errors import InvalidInput
from outlast.functions.decorators import Workflow
from outlast.functions.dry_replay import command_at
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.lifecycle.branch_plan import BranchPlan
from outlast.store import Store


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
