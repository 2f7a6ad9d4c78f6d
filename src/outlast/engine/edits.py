"""What a person gives a node by hand is checked against the node's signature before anything is appended."""

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
    """Raise `InvalidInput` if the edited inputs or the edited output of a branch do not fit the node they are for.

    The node is found by a replay up to the branch point. If the code does not replay, nothing is refused here: whoever
    advances the run holds it, and names the difference."""
    for word in new_branch.then:
        match word:
            case e.NodeScheduled(node=node, inputs=inputs) if inputs is not e.NULL:
                command = await command_at(store, run, workflow, node, new_branch.cutoff)
                if command is not None:
                    command.arguments.check_arguments(inputs)
            case e.NodeCompleted(node=node, output=output):
                command = await command_at(store, run, workflow, node, new_branch.cutoff)
                if command is not None:
                    _check_output(command.arguments.returns.decode, node, output, command.arguments.shown)
            case _:
                pass


def _check_output(decode: Any, node: str, output: e.Value, signature: str) -> None:
    try:
        decode(output)
    except InvalidInput as error:
        raise InvalidInput(f"the output of node {node}: {error}; the signature is {signature}") from error
