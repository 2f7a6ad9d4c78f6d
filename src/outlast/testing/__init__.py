"""What users test their own workflows and stores with.

For workflows: `survives_crashes` kills one at every store call and demands the same result, `replay_check` replays recorded
runs with the code of today, `engine` is an engine whose sleeps take no time. `plugin` has them as fixtures for pytest.

For stores: `contract` is the suite every store passes. `faults` wraps a store so that it dies, loses answers, delivers twice
or late.

What these stand on: `processes` has an engine over any store and processes that die; `time_skipping` a loop whose time leaps
when it is idle, `doors` a store that one process after another opens, `world` what was really done, `answering` who answers,
`crashes` the loop that kills a workflow at every store call, `recorded_runs` runs read back from an export. What only our
own tests need is in `tests/support`. Nothing in the product imports from here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.testing.answering import UNANSWERED, Question
    from outlast.testing.crash_test import DidNotSurvive, Survival, survives_crashes
    from outlast.testing.instant_engine import engine
    from outlast.testing.recorded_replay import DoesNotReplay, replay_check

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

__all__ = [
    "UNANSWERED",
    "DidNotSurvive",
    "DoesNotReplay",
    "Question",
    "Survival",
    "engine",
    "replay_check",
    "survives_crashes",
]


def __getattr__(name: str) -> Any:
    if name == "open":
        raise AttributeError("outlast.testing.open was renamed: use outlast.testing.engine", name=name, obj=None)
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'outlast.testing' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"outlast.testing.{module}"), name)
    return found
