"""What all tests share: Hypothesis draws the same examples in every run, and says how to draw a failing one again."""

from __future__ import annotations

import sys

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "outlast",
    derandomize=True,
    print_blob=True,
    deadline=None,
    phases=[phase for phase in Phase if phase is not Phase.explain],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("outlast")


def pytest_sessionfinish() -> None:
    """Servers that tests of this process brought up end with it."""
    servers = sys.modules.get("outlast.testing.servers.s3")
    if servers is not None:
        servers.stop_shared()
