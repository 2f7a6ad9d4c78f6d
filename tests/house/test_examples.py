"""Tests are deterministic: what Hypothesis draws does not depend on what ran before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers


def test_no_constants_are_drawn_from_modules_that_happen_to_be_imported() -> None:
    @given(st.integers())
    def drawing(_: int) -> None:
        pass

    drawing()
    assert len(providers._get_local_constants()) == 0
