"""Waits for runs (their results, events and questions) and answers them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct

from outlast.client.answer_check import check_answer
from outlast.client.questions import not_open, open_question
from outlast.client.temporary_claim import Verbs
from outlast.definition.durations import Seconds, seconds_or_none
from outlast.errors import (
    AlreadyAnswered,
    InvalidInput,
    NotAsked,
    NotFound,
    RunCancelled,
    RunGone,
    RunHeld,
    StillRunning,
)
from outlast.functions import registry
from outlast.functions.decorators import Node, Workflow
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.history.record import Entry
from outlast.ledger.reading import Ended, created_of, ending_of, latest_run_of, missing
from outlast.lifecycle.decide import next_request
from outlast.lifecycle.state import NodeStatus, Wait
from outlast.lifecycle.status import RunStatus
from outlast.values.checked_text import words
from outlast.values.codec import Codec, codec_for, encode, fetched, stored
from outlast.values.failures import error_from
from outlast.values.secrets import has_revealed

POLL = 1.0
"""Seconds after which a waiting caller reads again without a notification."""
_ANY = codec_for(Any)


class Question(Struct, frozen=True):
    """An open question. `run` asks it; `engine.answer(run, value, interaction=id)` answers it. `schema` is the JSON
    schema of the answer, None if any answer is allowed."""

    run: RunId
    id: str
    prompt: str
    schema: Any = None


class Results(Verbs):
    """Waits for runs, and answers them."""

    async def result(
        self, run: RunId, *, workflow: Workflow[..., Any] | None = None, timeout: Seconds | None = None
    ) -> Any:
        """See `Engine.result`."""
        codec = workflow._arguments.returns if workflow is not None else _ANY
        limit = seconds_or_none(timeout, "timeout")
        last, ending = await self.ending(run, limit)
        if ending is None:
            raise StillRunning(f"run {run} has not ended within {limit:g} s; it continues")
        return await self._outcome(last, ending, codec, "" if workflow is None else workflow.fn.__module__)

    def ending(self, run: RunId, limit: float | None) -> Coroutine[Any, Any, tuple[RunId, Ended | None]]:
        """How a run ended, and its id; of a run that continued as another, the last one. None if it has not ended within
        `limit` seconds; 0 is enough for a run that has."""
        return self._ending(run) if limit is None else self._ending_within(run, limit)

    async def _ending_within(self, run: RunId, limit: float) -> tuple[RunId, Ended | None]:
        waiting = asyncio.timeout(limit)
        try:
            async with waiting:
                return await self._ending(run)
        except TimeoutError:
            if not waiting.expired():
                raise
            last = await latest_run_of(self._store, run)
            over = await self._stored_ending(last)
            return last, None if isinstance(over, e.RunContinued) else over

    async def _ending(self, run: RunId) -> tuple[RunId, Ended]:
        drivers = self._worker.drivers if self._worker is not None else {}
        if run not in drivers:
            await self._reader.head(run)
        while True:
            driver = drivers.get(run)  # it knows the end without reading the store
            ending = await driver.ended() if driver is not None else None
            if ending is None or isinstance(ending, e.RunPaused):
                ending = await self._wait_for_ending(run)
            if not isinstance(ending, e.RunContinued):
                return run, ending
            run = RunId(ending.successor)  # it may not have been created yet

    async def _wait_for_ending(self, run: RunId) -> Ended:
        while True:
            with self._news.next_change(run) as change:
                ending = await self._stored_ending(run)
                if ending is not None:
                    return ending
                await asyncio.wait({change}, timeout=POLL)

    async def _stored_ending(self, run: RunId) -> Ended | None:
        """How the run ended, from the store; None if it has not ended."""
        head = await self._store.head(run)
        if head is None:
            if await self._store.tombstone(run) is not None:
                raise await missing(self._store, run)
            return None  # it has not been created yet
        summary = await self._store.summary(run)
        if head.closed:
            return await ending_of(self._store, head)
        if summary is None or not summary.held:
            return None
        is_cancelled = isinstance(next_request(await self._reader.state(run)), e.CancelRequested)
        return None if is_cancelled else await ending_of(self._store, head)

    async def _outcome(self, run: RunId, ending: Ended, codec: Codec, near: str) -> Any:
        if isinstance(ending, e.RunCompleted):
            return codec.decode(await fetched(ending.output, self._store.blobs))
        raise error_of(run, ending, near)

    async def watch(
        self, run: RunId, *, after: int = 0, stalled: Callable[[bool], None] | None = None
    ) -> AsyncIterator[Entry]:
        """See `Engine.watch`."""
        is_stalled = False
        while True:
            with self._news.next_change(run) as change:
                head = await self._reader.head(run)
                if head.version > after:
                    async for entry in self._reader.events(run, everything=True, after=after):
                        after = entry.seq
                        yield entry
                elif head.closed:
                    return
                else:
                    if stalled is not None and is_stalled is not (is_stalled := await self._is_stalled(run)):
                        stalled(is_stalled)
                    await asyncio.wait({change}, timeout=POLL)

    async def _is_stalled(self, run: RunId) -> bool:
        """Whether a run should advance and no live worker advances it."""
        summary, holding = await self._reader.get(run), await self._store.holding(run)
        is_going = summary.status in (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.COMPENSATING)
        return is_going and not summary.awaits_start and (holding is None or not holding.is_live)

    # --- questions

    async def answer(self, run: RunId, value: Any, *, interaction: str | None = None, by: str = "") -> RunId:
        """See `Engine.answer`."""
        run, wait = await open_question(self._store, await self._reader.get(run), interaction)
        return await self.answer_question(run, wait, value, by=by)

    async def answer_question(self, run: RunId, wait: Wait, value: Any, *, by: str = "") -> RunId:
        """Answer a question that was open a moment ago, of the run that asked it."""
        by = words("by", by)
        schema = msgspec.json.decode(wait.detail)
        raw = answer_json(value, schema)
        answered = e.InteractionAnswered(interaction=wait.id, answer=await stored(raw, self._store.blobs), by=by)
        try:
            await self._ledger.deliver(run, [answered])
        except RunGone:
            raise await not_open(self._store, run, wait.id) from None
        return run

    async def asked(self, run: RunId, question: str | None, timeout: Seconds | None) -> Question:
        limit = seconds_or_none(timeout, "timeout")
        waiting = asyncio.timeout(limit)
        found = await self._open_question(run, question)
        try:
            async with waiting:
                while found is None:
                    newest = await latest_run_of(self._store, run)
                    with self._news.next_change(newest) as change:
                        found = await self._open_question(run, question)
                        if found is None:
                            await asyncio.wait({change}, timeout=POLL)
        except TimeoutError:
            if not waiting.expired():
                raise
            what = "anything" if question is None else repr(question)
            raise StillRunning(f"run {run} has not asked {what} within {limit:g} s; it continues") from None
        return found

    async def _open_question(self, run: RunId, question: str | None) -> Question | None:
        """The question, if it is open; raises the failure of the run if it cannot be asked any more."""
        await self._reader.head(run)
        try:
            asker, wait = await open_question(self._store, await self._reader.get(run), question)
            return Question(asker, wait.id, wait.text, msgspec.json.decode(wait.detail))
        except NotAsked:
            pass
        except AlreadyAnswered:
            if question is not None:
                raise
        except RunGone:
            if isinstance(await self._raise_failure(run), e.RunContinued):
                return None  # its successor is about to be created
            raise
        await self._raise_failure(run)
        return None

    async def _raise_failure(self, run: RunId) -> Ended | None:
        """Raise like `result` if the run failed, is held or was cancelled; otherwise return how it ended, or None."""
        newest = await latest_run_of(self._store, run)
        ending = await self._stored_ending(newest)
        if ending is not None and not isinstance(ending, e.RunCompleted | e.RunContinued):
            await self._outcome(newest, ending, _ANY, "")
        return ending

    # --- outputs of nodes

    async def output(self, run: RunId, node: Node[..., Any] | str) -> Any:
        """See `Engine.output`."""
        nodes = (await self._reader.state(run)).nodes
        name = called_as(node, run, (each for each, _ in nodes.items()))
        found = nodes.get(name)
        if found is None or found.status is not NodeStatus.COMPLETED:
            raise no_output(node, run)
        known = node if isinstance(node, Node) else await self._node_of(run, name)
        codec = known._arguments.returns if known is not None else _ANY
        return codec.decode(await fetched(found.output, self._store.blobs))

    async def _node_of(self, run: RunId, name: str) -> Node[..., Any] | None:
        return known_node((await created_of(self._store, run)).workflow, name)


def known_node(workflow: str, name: str) -> Node[..., Any] | None:
    """The node of that name, if this process knows the workflow and its module has the node."""
    known = registry.known(workflow)
    around = known.fn.__globals__.values() if known is not None else ()
    return next((each for each in around if isinstance(each, Node) and _is_of(name, each.name)), None)


def error_of(run: RunId, ending: Ended, near: str = "") -> Exception:
    """The error that waiting for a run raises that ended like this, without a result."""
    match ending:
        case e.RunFailed(held=True):
            kind = error_from(ending.error)
            held = kind if isinstance(kind, RunHeld) else RunHeld(ending.error.message)
            held.add_note(f"A person has to decide about run {run}: resume it, retry a node, or cancel it.")
            return held
        case e.RunFailed():
            return error_from(ending.error, near)
        case _:
            reason = f": {ending.reason}" if isinstance(ending, e.RunCancelled) and ending.reason else ""
            return RunCancelled(f"run {run} was cancelled{reason}")


def called_as(node: Node[..., Any] | str, run: RunId, calls: Iterable[str]) -> str:
    """The call of a node by the node or by the name of its call; empty if there is none."""
    wanted, calls = node if isinstance(node, str) else node.name, tuple(calls)
    names = [wanted] if wanted in calls else [name for name in calls if _is_of(name, wanted)]
    if len(names) > 1:
        raise InvalidInput(f"run {run} called {wanted} more than once; give the name of the call: {', '.join(names)}")
    return names[0] if names else ""


def no_output(node: Node[..., Any] | str, run: RunId) -> NotFound:
    wanted = node if isinstance(node, str) else node.name
    return NotFound(f"node {wanted} of run {run} has no output: it was not called, or has not completed")


def _is_of(name: str, node: str) -> bool:
    """Whether a call of this name, such as `publish/2/fetch#3` or `fetch[a]`, is a call of that node."""
    return name.partition("[")[0].rpartition("/")[2].partition("#")[0] == node


def answer_json(value: Any, schema: Any) -> e.Value:
    """An answer as JSON that fits the schema of the question: a date becomes a text, a dataclass an object. Without a
    schema the encoded answer carries its own type."""
    if schema is None:
        return encode(value, where="answer")
    try:
        tree = _listed(msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped))
    except (TypeError, ValueError, RecursionError):
        raw = encode(value, where="answer")  # raises with the reason if it cannot be stored
        tree = msgspec.json.decode(raw)
    else:
        raw = encode(tree, where="answer")
    check_answer(tree, schema)
    return raw


def _listed(tree: Any) -> Any:
    """The same tree with lists for tuples, which JSON does not have."""
    if isinstance(tree, dict):
        return {key: _listed(part) for key, part in tree.items()}
    return [_listed(part) for part in tree] if isinstance(tree, list | tuple) else tree


def _dumped(value: Any) -> Any:
    """The types that msgspec does not know: paths, and Pydantic models without an import of Pydantic."""
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(type(value), "model_dump") and not has_revealed(dump := value.model_dump(mode="json", by_alias=True)):
        return dump
    raise TypeError
