"""What requests hold: queries and bodies. Fields that are not listed are refused."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from outlast.client.bulk import Action
from outlast.http.permissions import Role
from outlast.lifecycle.status import RunStatus

Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1000, description="How many items a page has.")]
Text: TypeAlias = Annotated[str, Meta(max_length=1000)]
RunText: TypeAlias = Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._:@=+-]{0,199})?$", max_length=200)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=9_223_372_036_854_775_807)]
Cursor: TypeAlias = Annotated[str, Meta(max_length=4000, description="`next` of the page before.")]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=60, description="Seconds to wait.")]
Value: TypeAlias = Annotated[Raw, Meta(description="Any JSON value.")]
NULL = Raw(b"null")
NOTHING = Raw(b"{}")


class Query(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all queries."""


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all bodies."""


class CountRuns(Query, frozen=True, kw_only=True):
    status: Annotated[tuple[RunStatus, ...], Meta(description="One or more statuses; may be given several times.")] = ()
    workflow: Text = ""
    tag: Annotated[tuple[Text, ...], Meta(description="Tags that a run must have; may be given several times.")] = ()
    parent: Text = ""
    text: Annotated[str, Meta(max_length=1000, description="Text in id, workflow, title, tags or reason.")] = ""
    since: Annotated[Number, Meta(description="Created at or after this time, in microseconds.")] | UnsetType = UNSET
    until: Annotated[Number, Meta(description="Created before this time, in microseconds.")] | UnsetType = UNSET
    children: Annotated[bool, Meta(description="False leaves out the children of other runs.")] = True
    prefix: Annotated[RunText, Meta(description="The beginning of the id.")] = ""
    queue: Text = ""
    attribute: Annotated[
        tuple[Text, ...],
        Meta(
            description="Conditions on search attributes, such as `customer=acme` or `total>=10`; may be given several "
            "times. Operators are = < <= > >=. A value in double quotes is text; otherwise true and false, numbers and "
            "times with a zone are what they look like."
        ),
    ] = ()
    held: Annotated[bool, Meta(description="Only held runs, or only the others.")] | UnsetType = UNSET
    asks: Annotated[bool, Meta(description="Only runs that wait for a person, or only the others.")] | UnsetType = UNSET


class ListRuns(CountRuns, frozen=True, kw_only=True):
    sort: Annotated[
        str,
        Meta(
            pattern="^(-?[a-z][a-z0-9_]{0,62})?$",
            description="The attribute to sort by, with - before it from the greatest down. Only runs that have it are "
            "listed.",
        ),
    ] = ""
    limit: Limit = 50
    cursor: Cursor = ""


class ListEvents(Query, frozen=True, kw_only=True):
    after: Annotated[Number, Meta(description="Only events with a greater number.")] = 0
    limit: Limit = 200
    branch: Annotated[Number, Meta(description="The lineage of this branch instead of the current.")] | UnsetType = (
        UNSET
    )
    everything: Annotated[bool, Meta(description="All branches, in the order of the log.")] = False
    node: Annotated[Text, Meta(description="Only events of this node.")] = ""


class OfBranch(Query, frozen=True, kw_only=True):
    branch: Annotated[Number, Meta(description="The branch; the current one by default.")] | UnsetType = UNSET


class Explain(OfBranch, frozen=True, kw_only=True):
    full: Annotated[bool, Meta(description="Leave nothing out.")] = False


class ListIds(Query, frozen=True, kw_only=True):
    prefix: Annotated[RunText, Meta(description="Only ids that begin with this.")] = ""
    unfinished: bool = False
    limit: Limit = 200
    cursor: Cursor = ""


class Wait(Query, frozen=True, kw_only=True):
    wait: Seconds = 0.0


class WhichQuestion(Wait, frozen=True, kw_only=True):
    interaction: Annotated[Text, Meta(description="The question, by its id or key; any by default.")] = ""


class GetRun(Query, frozen=True, kw_only=True):
    repairs: Annotated[bool, Meta(description="Also list the repair of the run among its actions.")] = False


class Verify(Query, frozen=True, kw_only=True):
    blobs: Annotated[bool, Meta(description="Also compare the content of blobs with their hashes.")] = True


class ListLogs(Query, frozen=True, kw_only=True):
    after: Annotated[Number, Meta(description="Only lines with a greater number.")] = 0
    limit: Limit = 200
    node: Text = ""
    attempt: Number | UnsetType = UNSET


class Output(Query, frozen=True, kw_only=True):
    node: Annotated[Text, Meta(description="The node; without it, the result of the run.")] = ""


class Compare(Query, frozen=True, kw_only=True):
    other: Annotated[RunText, Meta(description="The other run; the same one by default.")] = ""
    branch: Number | UnsetType = UNSET
    other_branch: Number | UnsetType = UNSET


class Inbox(Query, frozen=True, kw_only=True):
    limit: Limit = 50
    cursor: Cursor = ""


class ListAudit(Query, frozen=True, kw_only=True):
    by: Annotated[Text, Meta(description="Part of the name of who sent the request.")] = ""
    action: Annotated[tuple[Text, ...], Meta(description="Operation ids; may be given several times.")] = ()
    subject: Annotated[Text, Meta(description="The run or token that the request was about.")] = ""
    address: Annotated[Text, Meta(description="The address that the request came from.")] = ""
    refused: Annotated[bool, Meta(description="Only requests that were refused, or only the others.")] | UnsetType = (
        UNSET
    )
    since: Annotated[Number, Meta(description="At or after this time, in microseconds.")] | UnsetType = UNSET
    until: Annotated[Number, Meta(description="Before this time, in microseconds.")] | UnsetType = UNSET
    limit: Limit = 50
    cursor: Cursor = ""


Attribute: TypeAlias = Annotated[
    Raw,
    Meta(
        description='Text, a number, true or false, or a time with a zone as `{"time": "2026-11-30T12:00:00Z"}`.',
        extra_json_schema={
            "anyOf": [
                {"type": ["string", "number", "boolean"]},
                {
                    "type": "object",
                    "properties": {"time": {"type": "string", "format": "date-time"}},
                    "required": ["time"],
                },
            ]
        },
    ),
]


class StartBody(Body, frozen=True, kw_only=True):
    workflow: Annotated[str, Meta(min_length=1, max_length=1000)]
    params: Annotated[Raw, Meta(description="The parameters.", extra_json_schema={"type": "object"})] = field(
        default_factory=lambda: NOTHING
    )
    id: Annotated[RunText, Meta(description="The id of the run; the same id is the same start.")] = ""
    title: Text = ""
    tags: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=1000)], ...], Meta(max_length=100)] = ()
    queue: Annotated[str, Meta(max_length=100, description="The queue in which the run waits.")] | UnsetType = UNSET
    priority: (
        Annotated[int, Meta(ge=-100, le=100, description="Of the runs that wait, the greatest begins first.")]
        | UnsetType
    ) = UNSET
    fairness_key: Annotated[str, Meta(max_length=200, description="The runs of each key take turns.")] | UnsetType = (
        UNSET
    )
    attributes: Annotated[
        dict[str, Attribute],
        Meta(description="Search attributes of the run, by name."),
    ] = {}
    start: Annotated[bool, Meta(description="False creates the run only: `start` begins it.")] = True
    wait: Annotated[float, Meta(ge=0, le=60, description="Seconds to wait for the result.")] = 0.0


class BatchItem(StartBody, frozen=True, kw_only=True):
    key: Annotated[str, Meta(max_length=200, description="The Idempotency-Key of this item.")] = ""


class BatchBody(Body, frozen=True, kw_only=True):
    items: Annotated[tuple[BatchItem, ...], Meta(min_length=1, max_length=1000)]


class DoctorBody(Body, frozen=True, kw_only=True):
    fix: Annotated[bool, Meta(description="Repair what can be repaired; false is a dry run.")] = False
    blobs: Annotated[bool, Meta(description="Also compare the content of blobs with their hashes.")] = True


class AnswerBody(Body, frozen=True, kw_only=True):
    value: Value
    interaction: Annotated[Text, Meta(description="The question; needed if the run asks several.")] = ""


class DecisionBody(Body, frozen=True, kw_only=True):
    interaction: Annotated[Text, Meta(description="The question; needed if the run asks several.")] = ""
    comment: Annotated[
        str, Meta(max_length=500, description="Kept with the decision, for people: the workflow does not get it.")
    ] = ""


class ReasonBody(Body, frozen=True, kw_only=True):
    reason: Text = ""


class CompareVersions(Query, frozen=True, kw_only=True):
    old: Annotated[Text, Meta(description="A run, or the beginning of a version.")]
    new: Annotated[
        Text, Meta(description="A run, or the beginning of a version; by default, the code of this server.")
    ] = ""


class Statistics(Query, frozen=True, kw_only=True):
    since: Annotated[Number, Meta(description="Created at or after this time; 7 days ago by default.")] | UnsetType = (
        UNSET
    )
    until: Annotated[Number, Meta(description="Created before this time; now by default.")] | UnsetType = UNSET
    buckets: Annotated[int, Meta(ge=1, le=200, description="How many intervals.")] = 28


RunName: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@=+-]{0,199}$", max_length=200)]


class PreviewBody(Body, frozen=True, kw_only=True):
    filter: Annotated[CountRuns, Meta(description="As in the list of runs.")] = CountRuns()
    runs: Annotated[tuple[RunName, ...], Meta(max_length=1000, description="These runs, instead of a filter.")] = ()


class BulkTarget(Body, frozen=True, kw_only=True):
    run: RunName
    interaction: Annotated[Text, Meta(description="The question; needed if the run asks several.")] = ""


class BulkBody(ReasonBody, frozen=True, kw_only=True):
    action: Action
    filter: Annotated[CountRuns, Meta(description="All runs that match now, as in the list of runs.")] | UnsetType = (
        UNSET
    )
    runs: Annotated[
        tuple[BulkTarget, ...], Meta(max_length=10_000, description="These runs, instead of a filter.")
    ] = ()
    value: Annotated[Raw, Meta(description="The answer, for the action `answer`.")] | UnsetType = UNSET
    force: Annotated[bool, Meta(description="For the action `delete`: also runs that can be resumed.")] | UnsetType = (
        UNSET
    )


class DeleteRun(Query, frozen=True, kw_only=True):
    force: Annotated[
        bool, Meta(description="Also a run that is held or can be resumed, or that another one needs.")
    ] = False
    reason: Text = ""


class PruneBody(ReasonBody, frozen=True, kw_only=True):
    older: Annotated[float, Meta(ge=0, le=3_153_600_000, description="Seconds since the run ended.")]
    workflow: Text = ""
    status: Annotated[tuple[RunStatus, ...], Meta(description="Only runs in these statuses.")] = ()
    force: Annotated[bool, Meta(description="Also runs that can be resumed, or that another one needs.")] = False
    dry_run: Annotated[bool, Meta(description="Only report.")] = False


class BulkResults(Query, frozen=True, kw_only=True):
    result: Annotated[Literal["done", "skipped", "failed"], Meta(description="Only these.")] | UnsetType = UNSET
    limit: Limit = 100
    cursor: Cursor = ""


class CancelBody(ReasonBody, frozen=True, kw_only=True):
    force: Annotated[bool, Meta(description="End the run without or amid its clean-up.")] = False


class ResumeBody(Body, frozen=True, kw_only=True):
    force: Annotated[bool, Meta(description="Also if nodes completed after the failure.")] = False


Children: TypeAlias = Literal["cancel", "keep"]


class LeavingBody(ReasonBody, frozen=True, kw_only=True):
    children: Annotated[Children, Meta(description="Children that the new branch leaves: cancel or keep them.")] = (
        "cancel"
    )


class MigrateBody(LeavingBody, frozen=True, kw_only=True):
    pass


class RetryBody(LeavingBody, frozen=True, kw_only=True):
    node: Annotated[Text, Meta(description="The node; the one that failed by default.")] = ""
    feedback: Value | UnsetType = UNSET
    force: Annotated[bool, Meta(description="Also if nodes completed after the failure.")] = False


class JumpBody(LeavingBody, frozen=True, kw_only=True):
    to: Annotated[int | str, Meta(description="An event by its number, a node or a question by its name, or `start`.")]
    inputs: Annotated[dict[str, Raw], Meta(description="Other inputs for the node.")] | UnsetType = UNSET
    output: Annotated[Raw, Meta(description="What the node is to have returned.")] | UnsetType = UNSET


class PlanBody(JumpBody, frozen=True, kw_only=True):
    """The action, and the fields that its own body has."""

    action: Literal["resume", "retry", "pause", "cancel", "jump", "rewind", "activate"]
    to: Annotated[int | str, Meta(description="See `jump`.")] = ""
    node: Text = ""
    feedback: Value | UnsetType = UNSET
    nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    branch: Number = 0
    force: bool = False


class RewindBody(LeavingBody, frozen=True, kw_only=True):
    nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 1


class ForkBody(Body, frozen=True, kw_only=True):
    at: Annotated[
        int | str | UnsetType, Meta(description="An event, a node or a question; the last one by default.")
    ] = UNSET
    id: RunText = ""
    title: Text = ""


class ActivateBody(LeavingBody, frozen=True, kw_only=True):
    branch: Number


class SweepBody(Body, frozen=True, kw_only=True):
    dry_run: bool = False
    stale_after: Annotated[float, Meta(ge=0, le=31_536_000, description="Seconds.")] = 600.0


class TokenBody(Body, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}$")]
    role: Role
    expires_in: Annotated[float, Meta(ge=1, le=315_360_000, description="Seconds; never by default.")] | UnsetType = (
        UNSET
    )


class SignInBody(Body, frozen=True, kw_only=True):
    code: Annotated[str, Meta(max_length=200)]
