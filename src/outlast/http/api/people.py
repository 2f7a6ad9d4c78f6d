"""Questions to people: the inbox, and answers."""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.http import requests as r
from outlast.http.api.runs import run_of
from outlast.http.audit import AuditFilter
from outlast.http.cursors import after_of, cursor_of
from outlast.http.operations import Call, operation
from outlast.http.starting import value_of
from outlast.lifecycle.summary import shortened
from outlast.views import server as s
from outlast.views import types as v

DECIDED = AuditFilter(is_decision=True, is_refused=False)
_ANSWER: dict[str, Any] = {"tag": "people", "refuses": (409,)}


@operation("GET", "/inbox", "runs:read", tag="people")
async def list_questions(call: Call, query: r.Inbox) -> s.InboxView:
    """List the open questions of all runs.

    Held runs also wait for a person, without a question: `GET /api/v1/runs?held=true` lists them.
    """
    after = after_of("inbox", query.cursor)
    found, next = await call.state.store.waits(kind="interaction", after=after, limit=query.limit)
    questions = tuple(s.asked_view(each.run, each.wait) for each in found)
    return s.InboxView(questions=questions, next=cursor_of("inbox", next) or None)


@operation("GET", "/inbox/decided", "runs:read", tag="people")
async def list_decisions(call: Call, query: r.Inbox) -> s.DecisionListView:
    """List the decisions that were made through the server, the newest first.

    A page may have fewer than `limit` although `next` is set: the search of one request is bounded.
    """
    after = after_of("decided", query.cursor)
    found, next = await call.state.audit.find(DECIDED, after=after, limit=query.limit)
    return s.DecisionListView(decisions=tuple(map(s.decision_view, found)), next=cursor_of("decided", next) or None)


@operation("POST", "/runs/{run}/answer", "runs:answer", example={"interaction": "approve", "value": True}, **_ANSWER)
async def answer_question(call: Call, body: r.AnswerBody) -> v.AnswerView:
    """Answer an open question of a run; the answer must fit its schema."""
    return await answered(call, await run_of(call), body.value, body.interaction)


@operation("POST", "/runs/{run}/approve", "runs:answer", example={"interaction": "approve"}, **_ANSWER)
async def approve_run(call: Call, body: r.DecisionBody) -> v.AnswerView:
    """Answer an approval with yes."""
    return await answered(call, await run_of(call), msgspec.Raw(b"true"), body.interaction, body.comment)


@operation("POST", "/runs/{run}/reject", "runs:answer", example={"interaction": "approve"}, **_ANSWER)
async def reject_run(call: Call, body: r.DecisionBody) -> v.AnswerView:
    """Answer an approval with no."""
    return await answered(call, await run_of(call), msgspec.Raw(b"false"), body.interaction, body.comment)


async def answered(call: Call, run: RunId, raw: msgspec.Raw, interaction: str, comment: str = "") -> v.AnswerView:
    value = value_of(raw, "value")
    asking, wait = await call.engine.diagnostics.open_question(run, interaction or None)
    try:
        await call.engine._results.answer_question(asking, wait, value, by=call.by)
    except UnicodeError as error:
        raise InvalidInput(f"value: {error}") from None
    given = {True: "yes", False: "no"}.get(value, "") if isinstance(value, bool) else ""
    call.decision = {"interaction": wait.id, "text": shortened(wait.text or wait.id), "answer": given}
    call.note = comment
    call.subject = asking
    return v.AnswerView(run=asking, interaction=wait.id, answer=raw)
