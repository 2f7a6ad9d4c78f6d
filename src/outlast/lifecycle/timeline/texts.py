"""The one-line text and the level of each type of event.

`{field:in %}` renders the spec with the field in place of `%`, and nothing if the field has no value. A key may name a
variant of a type, `NodeFailed.retried`; `_VARIANTS` gives the variant of an event.
"""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter
from typing import Any, Final, Literal, TypeAlias

from msgspec import Raw

from outlast.errors import RUN_ENDED
from outlast.history import events as e
from outlast.lifecycle.attributes import attributes_text
from outlast.lifecycle.timeline import phrases as say

Level: TypeAlias = Literal["info", "notice", "warning", "error"]
INFO: Final = "info"
"""Only in a full timeline."""
NOTICE: Final = "notice"
WARNING: Final = "warning"
ERROR: Final = "error"
_PLACED = "{title:, titled “%”}{tags:, tags %}{attributes:, attributes %}{params:: %}"
_LEFT = (
    "{redo:; to do again: %}{withdrawn:; questions withdrawn: %}"
    "{cancelled:; children cancelled: %}{detached:; children detached: %}"
)

TEXTS: dict[str, tuple[Level, str]] = {
    "RunCreated": (NOTICE, "Run of {workflow} created{by: by %}" + _PLACED),
    "RunCreated.deferred": (NOTICE, "Run of {workflow} created, not started{by: by %}" + _PLACED),
    "RunCreated.child": (NOTICE, "Run of {workflow} created by its parent run {parent}{params:: %}"),
    "RunCreated.fork": (
        NOTICE,
        "Run of {workflow} forked from event {forked_at} of run {forked_from}{by: by %}{params:: %}",
    ),
    "RunStarted": (INFO, "Run started{by: by %}"),
    "RunStarted.resumed": (NOTICE, "Run resumed{by: by %}"),
    "RunTakenOver": (INFO, "Run claimed{worker: by %} (epoch {epoch})"),
    "RunTakenOver.dead": (WARNING, "Worker{previous: %} died; run taken over{worker: by %} (epoch {epoch})"),
    "RunTakenOver.expired": (WARNING, "Claim{previous: of %} expired; run taken over{worker: by %} (epoch {epoch})"),
    "PauseRequested": (NOTICE, "Pause requested{by: by %}{reason:: %}"),
    "RunPaused": (NOTICE, "Run paused{by: by %}{reason:: %}"),
    "CancelRequested": (NOTICE, "Cancellation requested{by: by %}{reason:: %}"),
    "CancelRequested.forced": (NOTICE, "Cancellation without clean-up requested{by: by %}{reason:: %}"),
    "RequestRefused": (WARNING, "Request of event {request} refused{reason:: %}"),
    "RunCompleted": (NOTICE, "Run completed{ms: in %}{output:: %}"),
    "RunFailed": (ERROR, "Run failed{node: in %}{error:: %}"),
    "RunFailed.recoverable": (ERROR, "Run failed{node: in %} and can be resumed{error:: %}"),
    "RunFailed.held": (ERROR, "Run held for a person's decision{node:, in %}{error:: %}"),
    "CleanupStarted": (NOTICE, "Workflow code cancelled; its clean-up may take {due}{reason:: %}"),
    "CleanupStarted.extended": (NOTICE, "Clean-up resumed{by: by %}; it may take {due}{reason:: %}"),
    "RunCancelled": (NOTICE, "Run cancelled{by: by %}{reason:: %}{cleanup:; clean-up %}{error: (%)}"),
    "RunContinued": (NOTICE, "Run ended and continues as run {successor}{carried:: %}"),
    "RunRecovered": (WARNING, "Run recovered from state {code}{reason:: %}{evidence: (events %)}"),
    "VersionChanged": (NOTICE, "Code version changed{previous: from %} to {version}{reason:: %}"),
    "AttributesSet": (INFO, "Search attributes set: {attributes}"),
    "BranchOpened": (NOTICE, "Branch {branch} opened after event {cutoff} ({cause}{by: by %}{reason:: %})" + _LEFT),
    "BranchOpened.start": (
        NOTICE,
        "Branch {branch} opened at the start of the run ({cause}{by: by %}{reason:: %})" + _LEFT,
    ),
    "JumpRequested": (NOTICE, "Jump back to event {target} requested{by: by %}{reason:: %}"),
    "Recalled": (INFO, "Following events copied from event {at} of the original run"),
    "StepStarted": (INFO, "Step {step} started"),
    "StepCompleted": (NOTICE, "Step {step} completed"),
    "NodeScheduled": (INFO, "{node} scheduled{attempt: (attempt %)}{feedback:, feedback: %}{inputs:, inputs: %}"),
    "NodeScheduled.retry": (INFO, "{node} scheduled again after a failure{attempt: (attempt %)}{feedback:: %}"),
    "NodeScheduled.crash": (WARNING, "{node} scheduled again after an interruption{attempt: (attempt %)}"),
    "NodeScheduled.pause": (NOTICE, "{node} scheduled again on resume{attempt: (attempt %)}"),
    "NodeScheduled.reset": (
        NOTICE,
        "{node} scheduled again{attempt: (attempt %)}{feedback:, feedback: %}{inputs:, inputs: %}",
    ),
    "NodeStarted": (INFO, "{node} started{attempt: (attempt %)}{inputs:: %}"),
    "NodeCheckpointed": (INFO, "{node} saved a checkpoint{attempt: (attempt %)}{data:: %}"),
    "NodeCompleted": (NOTICE, "{node} completed{ms: in %}{attempt: (attempt %)}{by:, result given by %}{output:: %}"),
    "NodeCompleted.adopted": (NOTICE, "{node} completed with the result of event {adopted}{output:: %}"),
    "NodeFailed": (ERROR, "{node} failed{ms: after %}{attempt: (attempt %)}{error:: %}"),
    "NodeFailed.retried": (
        WARNING,
        "{node} failed{ms: after %}{attempt: (attempt %)}{error:: %}; next attempt in {retry_at}",
    ),
    "NodeFailed.ended": (INFO, "{node} stopped because the run ended"),
    "NodesRetired": (INFO, "Completed nodes removed from the state: {nodes}"),
    "InteractionRequested": (NOTICE, "Question {interaction} asked{prompt:: “%”}{due:, expires in %}"),
    "InteractionAnswered": (NOTICE, "Question {interaction} answered{by: by %}: {answer}"),
    "InteractionWithdrawn": (NOTICE, "Question {interaction} withdrawn{reason:: %}"),
    "TimerSet": (NOTICE, "Timer {timer} set for {due}"),
    "TimerSet.retry": (INFO, "Timer {timer} set for {due}"),
    "TimerFired": (NOTICE, "Timer {timer} fired"),
    "TimerFired.retry": (INFO, "Timer {timer} fired"),
    "TimerCancelled": (NOTICE, "Timer {timer} cancelled{reason:: %}"),
    "TimerCancelled.retry": (INFO, "Timer {timer} cancelled{reason:: %}"),
    "GuestEventsRead": (INFO, "Events of other writers up to event {upto} read"),
    "DecisionRecorded": (INFO, "Value {key} recorded{value:: %}"),
    "ChildStarted": (NOTICE, "Child run {child} started{workflow:, workflow %}"),
    "ChildStarted.detached": (NOTICE, "Child run {child} started{workflow:, workflow %}, not waited for"),
    "ChildEnded": (NOTICE, "Child run {child} completed{adopted: with the result of event %}{output:: %}"),
    "ChildEnded.failed": (WARNING, "Child run {child} failed{error:: %}"),
    "ChildEnded.cancelled": (WARNING, "Child run {child} cancelled{error:: %}"),
}

GROUPS: dict[str, str] = {
    "NodeCompleted": "{count} nodes of {group} completed within {span}",
    "NodeCompleted.adopted": "{count} nodes of {group} completed with results of an earlier branch",
    "NodeFailed": "{count} nodes of {group} failed",
    "NodeFailed.retried": "{count} attempts of {group} failed and are retried",
    "NodeScheduled": "{count} nodes of {group} scheduled",
    "NodeScheduled.crash": "{count} nodes of {group} scheduled again after an interruption",
    "NodeStarted": "{count} nodes of {group} started",
    "InteractionRequested": "{count} questions asked",
    "InteractionAnswered": "{count} questions answered",
    "ChildStarted": "{count} child runs started",
    "ChildEnded": "{count} child runs completed",
    "ChildEnded.failed": "{count} child runs failed",
}
"""The texts of several entries of one kind; others give the last entry and the number."""

_VARIANTS: dict[type[e.Event], Callable[[Any], str]] = {
    e.RunCreated: lambda x: "child" if x.parent else "fork" if x.forked_from else "deferred" if x.deferred else "",
    e.RunStarted: lambda x: "resumed" if x.resumed else "",
    e.RunTakenOver: lambda x: x.cause,
    e.CancelRequested: lambda x: "forced" if x.force else "",
    e.RunFailed: lambda x: "held" if x.held else "recoverable" if x.recoverable else "",
    e.CleanupStarted: lambda x: "extended" if x.extended else "",
    e.BranchOpened: lambda x: "" if x.cutoff else "start",
    e.NodeScheduled: lambda x: x.cause,
    e.NodeCompleted: lambda x: "adopted" if x.adopted else "",
    e.NodeFailed: lambda x: "ended" if x.error.kind == RUN_ENDED else "" if x.retry_at is None else "retried",
    e.TimerSet: lambda x: x.timer.partition(":")[0],
    e.TimerFired: lambda x: x.timer.partition(":")[0],
    e.TimerCancelled: lambda x: x.timer.partition(":")[0],
    e.ChildStarted: lambda x: "detached" if x.detached else "",
    e.ChildEnded: lambda x: x.status,
}


def key_of(event: e.AnyEvent) -> str:
    """The key of the event in `TEXTS`; the name of its type if the table has no text for it."""
    name = type(event).__name__
    variant = _VARIANTS.get(type(event))
    special = f"{name}.{variant(event)}" if variant is not None else name
    return special if special in TEXTS else name


def text_of(event: e.AnyEvent, time: int) -> str:
    """The text of the event, on one line; `time` is the time of its entry, in microseconds."""
    parts: list[str] = []
    for literal, name, spec in _PARTS.get(key_of(event), ()):
        parts.append(literal)
        if name and (shown := _rendered(event, name, getattr(event, name), time)):
            parts.append(spec.replace("%", shown) if spec else shown)
    return "".join(parts)


def level_of(key: str) -> Level:
    return TEXTS[key][0] if key in TEXTS else INFO


def _rendered(event: e.AnyEvent, name: str, field: Any, time: int) -> str:
    """A field as text; empty if it has no value."""
    if isinstance(field, str):
        if name in ("interaction", "node"):
            return say.name(field)
        if isinstance(event, e.VersionChanged) and name != "reason":
            return say.plain(field)[:8]
        if name == "cleanup" and field == "none":
            return ""
        return say.cropped(field, 140 if name == "reason" else say.MAX_VALUE)
    if isinstance(field, Raw):
        return say.value(field) or ("null" if name == "answer" else "")
    if isinstance(field, e.Failure):
        return say.cropped(say.failure(field), 140)
    if isinstance(field, tuple):
        return say.listed(field)
    if isinstance(field, dict):
        return say.cropped(attributes_text(field), 140)
    if field is None:
        return ""
    if name in ("due", "retry_at"):
        return say.duration(field - time)
    if isinstance(field, float):
        return say.duration(field * 1000) if field else ""
    return "" if name == "attempt" and field == 1 else str(field or "")


_PARTS = {
    key: tuple((literal, name or "", spec or "") for literal, name, spec, _ in Formatter().parse(template))
    for key, (_, template) in TEXTS.items()
}
"""For each key, the literal texts, each followed by a field and its spec."""
