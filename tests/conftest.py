"""What all tests share: Hypothesis draws the same examples in every run, and says how to draw a failing one again."""

from __future__ import annotations

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
