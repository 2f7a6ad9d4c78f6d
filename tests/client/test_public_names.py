"""The public names: those of `outlast`, of `outlast.testing`, and the members of every public class. To change one is a
decision about the interface, which this test makes visible."""

from __future__ import annotations

import inspect

import pytest

import outlast as ol
from outlast import testing
from outlast.client.diagnostics import Diagnostics
from outlast.client.versions import Versions

NAMES = """
AlreadyAnswered AlreadyExists BlockingEngine BlockingRunHandle Call Context Damaged Engine InvalidInput Node
NodeFailure NotAllowed NotAsked NotDurable NotFound NotImportable NotStorable OutlastError Question RaceResult
Rejected Retry RunCancelled RunDeleted RunDiverged RunFilter RunGone RunHandle RunHeld RunStatus RunSummary Secret
ServerError StillRunning StoreError Unawaited Workflow __version__ approve asgi ask checkpoint connect context
continue_as_new events feedback first gather idempotency_key is_stopping last_checkpoint map node now open
open_blocking output_path progress race random register_secret_source run set_attributes sleep step uuid workflow
"""

TESTING = """
UNANSWERED DidNotSurvive DoesNotReplay Question Survival engine replay_check survives_crashes
"""

MEMBERS: dict[type, str] = {
    ol.BlockingEngine: """
        activate answer asked begin branches cancel close compare delete diagnose drain events explain find fork get handle
        iter_runs jump lines list_runs migrate output pause pause_all prune questions recover result resume retry rewind
        start sweep verify watch workers
    """,
    ol.BlockingRunHandle: """
        answer asked cancel explain get output pause result watch
    """,
    ol.Call: """
        close describe ensure_started name name_and_place scope send throw wait where
    """,
    ol.Context: """
        attempt idempotency_key node run
    """,
    ol.Engine: """
        activate answer asked begin branches cancel compare delete diagnose drain events explain find fork get handle
        iter_runs jump lines list_runs migrate output pause pause_all prune questions recover result resume retry
        rewind start sweep verify watch workers
    """,
    ol.Node: """
        name options
    """,
    ol.Question: """
        id prompt run schema
    """,
    ol.RaceResult: """
        index name value
    """,
    ol.Retry: """
        allows_another backoff classes delay give_up_on jitter max_attempts max_delay retry_on wait_us
    """,
    ol.RunFilter: """
        after attributes created_from created_until held limit order parent prefix queue roots statuses tags text
        workflow
    """,
    ol.RunHandle: """
        answer asked cancel explain get output pause result watch
    """,
    ol.RunStatus: """
        CANCELLED COMPENSATING COMPLETED CREATED FAILED PAUSED RUNNING WAITING
    """,
    ol.RunSummary: """
        at attributes awaits_start branch copied_to created done_nodes exclusive fairness_key held kind parent priority
        queue reason recoverable run status tags title updated version waiting waits workflow
    """,
    ol.Secret: """
        name reveal source
    """,
    ol.Workflow: """
        name options start version
    """,
    ol.step: """

    """,
    Versions: """
        check_migration diff migrate of replay
    """,
    Diagnostics: """
        continued_as created current_branch holder lineage now open_question preview preview_activate preview_cancel
        preview_pause preview_recovery preview_retry run_ids scratch take_over_later worker_id workers_knowing
    """,
}


def members(kind: type) -> list[str]:
    inherited = set(dir(str)) if issubclass(kind, str) else set()
    return [name for name in dir(kind) if not name.startswith("_") and name not in inherited]


def test_the_names_of_the_package_are_these() -> None:
    assert dir(ol) == NAMES.split()
    assert [name for name in dir(ol) if getattr(ol, name, None) is None] == []
    assert testing.__all__ == TESTING.split()


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.__name__)
def test_the_members_of_a_public_class_are_these(kind: type) -> None:
    assert members(kind) == MEMBERS[kind].split()


def test_the_members_of_every_public_class_are_pinned() -> None:
    public = {found for name in ol.__all__ if inspect.isclass(found := getattr(ol, name))}
    assert {kind for kind in public if not issubclass(kind, BaseException)} <= MEMBERS.keys()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        ol.nothing  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        testing.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_no_public_class_has_a_chain_of_ancestors() -> None:
    """Composition: a class of the engine has at most one ancestor of ours."""
    for kind in (ol.Engine, ol.BlockingEngine, ol.RunHandle, ol.BlockingRunHandle, Versions, Diagnostics):
        assert len([each for each in kind.__mro__ if each.__module__.startswith("outlast.")]) <= 2


def test_the_event_types_are_public() -> None:
    from outlast.history import events

    assert set(ol.events.__all__) == {*events.EVENT_TYPES, "AnyEvent", "Event", "Failure", "Moment"}
    assert ol.events.NodeCompleted is events.NodeCompleted
