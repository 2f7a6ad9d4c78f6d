"""Tests for your workflows and stores.

Workflows: `survives_crashes` kills a workflow at every store call and requires the same result, `replay_check`
replays recorded runs with the current code, `engine` is an engine whose sleeps take no time. `plugin` has them as
pytest fixtures.

Stores: `contract` is the test suite that every store passes. `faults` wraps a store so that it fails, loses answers,
repeats or delays calls.

These rest on `processes` (an engine over any store, in a process that can be killed), `time_skipping` (an event loop
whose clock jumps when it is idle), `store_factory` (a store opened by one process after another), `world` (the attempts
that were really made), `answering` (answers to questions), `crashes` (the crash loop) and `recorded_runs` (exports
read back). Helpers of Outlast's own tests are in `tests/support`. The product imports nothing from here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.testing.answering import UNANSWERED as UNANSWERED
    from outlast.testing.answering import Question as Question
    from outlast.testing.crash_test import DidNotSurvive as DidNotSurvive
    from outlast.testing.crash_test import Survival as Survival
    from outlast.testing.crash_test import survives_crashes as survives_crashes
    from outlast.testing.instant_engine import engine as engine
    from outlast.testing.recorded_replay import DoesNotReplay as DoesNotReplay
    from outlast.testing.recorded_replay import replay_check as replay_check

_MODULES = {
    "UNANSWERED": "answering",
    "DidNotSurvive": "crash_test",
    "DoesNotReplay": "recorded_replay",
    "Question": "answering",
    "Survival": "crash_test",
    "engine": "instant_engine",
    "replay_check": "recorded_replay",
    "survives_crashes": "crash_test",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'outlast.testing' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"outlast.testing.{module}"), name)
    return found
