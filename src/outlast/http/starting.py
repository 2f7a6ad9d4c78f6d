"""Starting runs over HTTP: parameters from JSON, idempotency keys, starts without starting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from outlast.errors import AlreadyExists, InvalidInput, NotFound
from outlast.functions import registry
from outlast.functions.decorators import Workflow
from outlast.history import events as e
from outlast.history.ids import RunId, derived_run
from outlast.http.problems import HttpError
from outlast.lifecycle.timeline.phrases import plain_numbers
from outlast.values.codec import decode, fetched
from outlast.views.build import error_view
from outlast.views.run_view import tally_of
from outlast.views.server import StartedView

if TYPE_CHECKING:
    from outlast.http.requests import StartBody
    from outlast.http.state import ServerState


def known_workflow(name: str) -> Workflow[..., Any]:
    found = registry.known(name)
    if found is None:
        raise NotFound(f"this server does not know a workflow {name[:200]!r}: start it with the module that defines it")
    return found


async def start(state: ServerState, body: StartBody, *, key: str, by: str, trace: str = "") -> tuple[StartedView, bool]:
    """Start a run, or find the one that the same request started before; whether it is new. It is carried out to its end
    even if the client leaves."""
    if key in state.starting:
        detail = "another request with this Idempotency-Key is being accepted"
        raise HttpError("http.in_progress", detail, headers={"Retry-After": "1"})
    if key:
        state.starting.add(key)
    task: asyncio.Task[tuple[StartedView, bool]] = asyncio.create_task(_start(state, body, key, by, trace))
    state.tasks.add(task)

    def done(_: object) -> None:
        state.tasks.discard(task)
        state.starting.discard(key)

    task.add_done_callback(done)
    return await asyncio.shield(task)


async def _start(state: ServerState, body: StartBody, key: str, by: str, trace: str) -> tuple[StartedView, bool]:
    engine, workflow = state.engine, known_workflow(body.workflow)
    args, kwargs = arguments_of(workflow, body.params)
    if key and body.id:
        raise InvalidInput("give an id or the header Idempotency-Key, not both: either one makes the start idempotent")
    placing = {"queue": body.queue, "priority": body.priority, "fairness_key": body.fairness_key}
    given: dict[str, Any] = {name: value for name, value in placing.items() if value is not UNSET}
    given |= {"idempotency_key": key or None, "id": body.id or None, "attributes": attributes_of(body.attributes)}
    chosen = workflow.options(title=body.title, tags=body.tags, start=body.start, **given)
    chosen._start_options["by"] = by
    chosen._start_options["trace"] = trace
    run = derived_run("key", key) if key else RunId(body.id)
    is_new = not run or await state.store.head(run) is None
    try:
        run = (await engine.start(chosen, *args, **kwargs)).run
    except AlreadyExists as error:
        if not key:
            raise
        raise HttpError("http.key_reused", str(error), field="header.Idempotency-Key") from None
    return await _started(state, run, workflow.name, created=is_new), is_new


async def _started(state: ServerState, run: RunId, workflow: str, *, created: bool) -> StartedView:
    status = (await state.engine.get(run)).status
    return StartedView(run=run, workflow=workflow, status=status, created=created, result=e.NULL, error=None)


async def waited(state: ServerState, view: StartedView, seconds: float) -> StartedView:
    """The same after the run ended, if it does within these seconds."""
    last, _ = await state.engine._results.ending(RunId(view.run), seconds)
    tally = await tally_of(state.engine, last)
    outline = tally.state.outline
    result = plain_numbers(await fetched(outline.output, state.store.blobs))
    failure = error_view(outline.error, outline.failed_node) if outline.error else None
    return msgspec.structs.replace(view, run=last, status=tally.state.status, result=result, error=failure)


# --- parameters


def arguments_of(workflow: Workflow[..., Any], params: Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a workflow from a JSON object; `InvalidInput` names the parameter that does not fit."""
    if not bytes(params).lstrip().startswith(b"{"):
        raise HttpError("http.invalid", "Expected `object`", field="body.params")
    value_of(params, "params")
    arguments = workflow._arguments
    arguments.check_arguments(params)
    given = msgspec.json.decode(params, type=dict[str, Raw])
    missing = [
        name
        for name, parameter in arguments.signature.parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and name not in given
    ]
    if missing:
        noun = "parameter" if len(missing) == 1 else "parameters"
        raise InvalidInput(f"{noun} {', '.join(missing)} missing; the signature is {arguments.shown}")
    return arguments.unpack(params)


def attributes_of(given: Mapping[str, Raw]) -> dict[str, Any]:
    """Search attributes from JSON."""
    found = {name: value_of(raw, f"attributes.{name[:80]}") for name, raw in given.items()}
    for name, value in found.items():
        if isinstance(value, dict) and value.keys() == {"time"}:
            try:
                found[name] = datetime.fromisoformat(value["time"])
            except (TypeError, ValueError):
                raise InvalidInput(f"attributes.{name}: {value['time']!r} is not a time") from None
    return found


def value_of(raw: Raw, where: str) -> Any:
    """A value of a user from JSON, exactly: `{"$": "decimal", …}` is a Decimal. Numbers that a float would change, and keys
    that stand twice, are refused."""

    def number(text: str) -> float:
        read = float(text)
        if read in (float("inf"), float("-inf")) or Decimal(repr(read)) != Decimal(text):
            raise InvalidInput(
                f"{where}: {text[:60]} is more exact than a number can be: send it as text, or as "
                '{"$": "decimal", "v": "…"}'
            )
        return read

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = next(name for place, (name, _) in enumerate(pairs) if name in dict(pairs[:place]))
            raise InvalidInput(f"{where}: the key {twice[:80]!r} stands twice in one JSON object")
        return found

    def refused(text: str) -> Any:
        raise InvalidInput(f'{where}: {text} is not JSON: send {{"$": "float", "v": "nan"}}, "inf" or "-inf"')

    try:
        json.loads(bytes(raw), parse_float=number, object_pairs_hook=distinct, parse_constant=refused)
        return decode(raw)
    except RecursionError:
        raise HttpError("http.malformed", "the JSON is nested too deeply") from None
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(f"{where}: {error}") from None
