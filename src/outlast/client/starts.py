"""Starting runs: what makes a start idempotent or exclusive."""

from __future__ import annotations

import inspect
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Raw

from outlast.client.handle import RunHandle
from outlast.client.temporary_claim import TemporaryClaims, Verbs
from outlast.errors import AlreadyExists, InvalidInput, NotStorable, RunDeleted
from outlast.functions import scope
from outlast.functions.decorators import Workflow, no_start_in_a_workflow
from outlast.functions.workflow_import import import_entry
from outlast.history import events as e
from outlast.history.ids import RunId, checked_run, derived_run
from outlast.ledger.reading import created_of, head_of
from outlast.store import Blobs
from outlast.values.arguments import Arguments, Packed
from outlast.values.checked_text import checked_texts, words
from outlast.values.codec import fetched, stored

P = ParamSpec("P")
R = TypeVar("R")


class Starts(Verbs):
    """Starts runs. `root` is the project folder of their code."""

    def __init__(self, claims: TemporaryClaims, root: str) -> None:
        super().__init__(claims)
        self._root = root

    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """See `Engine.start`."""
        packed = pack(workflow, args, kwargs)
        spec, options = workflow._spec, workflow._start_options
        run = self._run_id(options)
        exclusive = words("exclusive", workflow._exclusive_for(args, kwargs))
        entry, folder = import_entry(spec)
        queue, priority, fairness_key = workflow._placing
        created = e.RunCreated(
            workflow=spec.name,
            version=await self._claims.definitions.keep(workflow),
            params=await stored(packed.inputs, self._store.blobs),
            by=words("by", options.get("by", "")),
            key=words("idempotency_key", options.get("idempotency_key", "")),
            title=words("title", options.get("title", "")),
            tags=checked_texts("tags", options.get("tags", ())),
            attributes=options.get("attributes", {}),
            on_restart=spec.on_restart,
            exclusive=exclusive,
            entry=entry,
            folder=folder,
            root=self._root,
            deferred=not options.get("start", True),
            trace=options.get("trace", ""),
            queue=queue,
            priority=priority,
            fairness_key=fairness_key,
        )
        try:
            if created.deferred:
                await self._create_deferred(run, created)
            elif self._worker is not None and self._worker.capacity and not created.queue:
                await self._worker.start(run, workflow, created, packed.args, packed.kwargs)
                return self._claims.handle(run, workflow)
            else:
                await self._ledger.create_ready(run, created)
        except AlreadyExists:
            await self._check_same_start(run, created, workflow)
        self._claims.advance_run(run)
        return self._claims.handle(run, workflow)

    async def _create_deferred(self, run: RunId, created: e.RunCreated) -> None:
        """Create a run that nobody owns and that is not ready: no worker begins it before a user starts it."""
        await self._ledger.begin(run, self._ledger.new_worker_id()).append([created], release=True)

    def _run_id(self, options: dict[str, Any]) -> RunId:
        if "id" in options:
            return checked_run(words("id", options["id"]))
        if "idempotency_key" in options:
            return derived_run("key", options["idempotency_key"])
        return self._ledger.new_run_id()

    async def _check_same_start(self, run: RunId, asked: e.RunCreated, workflow: Workflow[..., Any]) -> None:
        """Accept a repeated start of the same workflow with the same parameters; refuse any other start under this id
        or key."""
        name = f"idempotency key {asked.key!r}" if asked.key else f"id {run}"
        try:
            await head_of(self._store, run)
            there = await created_of(self._store, run)
        except RunDeleted as deleted:
            raise AlreadyExists(f"{deleted}: its {name} stays used; choose another one") from deleted
        if there.workflow != asked.workflow:
            what = f"by a run of workflow {there.workflow}"
        elif not await _same_arguments(there.params, asked.params, workflow._arguments, self._store.blobs):
            what = "with different parameters"
        else:
            return
        raise AlreadyExists(f"{name} is already used {what}: choose another one, or start the same")


def pack(workflow: Workflow[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Packed:
    """The arguments of a start, encoded; refuses what cannot be started."""
    if not isinstance(workflow, Workflow):
        raise InvalidInput(f"{workflow!r} is not a workflow: decorate the function with @workflow")
    if scope.current.get(None) is not None:
        raise no_start_in_a_workflow(workflow.name)
    try:
        return workflow._arguments.pack(args, kwargs)
    except TypeError as error:
        raise InvalidInput(f"wrong arguments for workflow {workflow.name}: {error}") from error


async def _same_arguments(one: e.Value, other: e.Value, arguments: Arguments, blobs: Blobs) -> bool:
    """Whether both are the same arguments for the function: the order of keys does not matter, and an argument equal
    to its default may be omitted."""
    if bytes(one) == bytes(other):
        return True  # also for blobs: a reference contains the hash of the content
    return _ordered(await fetched(one, blobs), arguments) == _ordered(await fetched(other, blobs), arguments)


def _ordered(params: e.Value, arguments: Arguments) -> dict[str, bytes]:
    """Each parameter as JSON with sorted keys, defaults included."""
    given = _defaults(arguments) | (msgspec.json.decode(params, type=dict[str, Raw] | None) or {})
    return {name: msgspec.json.encode(msgspec.json.decode(raw), order="sorted") for name, raw in given.items()}


def _defaults(arguments: Arguments) -> dict[str, Raw]:
    found: dict[str, Raw] = {}
    for name, parameter in arguments.signature.parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            try:
                found[name] = arguments.codec(name).encode(parameter.default, name)
            except NotStorable:
                continue  # then no start has passed it either
    return found
