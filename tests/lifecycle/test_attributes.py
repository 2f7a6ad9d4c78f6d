"""Search attributes as text, and when they are written into the summary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import InvalidInput
from outlast.history import events as e
from outlast.lifecycle.attributes import attribute_text, parse_attribute
from outlast.lifecycle.draft import Draft
from outlast.lifecycle.fold import apply
from outlast.lifecycle.summary import is_changed
from support.histories import History

MOMENTS = st.integers(-(10**15), 10**16).map(e.Moment)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.booleans() | NUMBERS | MOMENTS | st.text() | st.from_regex(r"-?[0-9.]+|20[0-9]{2}-[01][0-9]-[0-3][0-9]"))
def test_what_is_written_is_read_back_with_its_type(value: e.AttributeValue) -> None:
    read = parse_attribute("it", attribute_text(value))
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", "True"),
        ("12", 12),
        ("-1.50", -1.5),
        ("1e3", 1000.0),
        ("12 EUR", "12 EUR"),
        ("", ""),
        ('"12"', "12"),
        ('"open', '"open'),
        ("2026-11-30T12:00Z", e.Moment(1_796_040_000_000_000)),
        ("2026-11-30 13:00:00+01:00", e.Moment(1_796_040_000_000_000)),
        ("2026-11-30 at noon", "2026-11-30 at noon"),
        ("nan", "nan"),
    ],
)
def test_a_text_stands_for_what_it_looks_like(text: str, value: e.AttributeValue) -> None:
    read = parse_attribute("it", text)
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize("text", ["2026-11-30", "2026-11-30T12:00"])
def test_a_time_without_a_zone_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=f"it: '{text}' is a time without a zone: write for example {text[:10]}T"):
        parse_attribute("it", text)


def test_true_and_1_are_different_values() -> None:
    history = History()
    history.write([e.RunCreated(workflow="flow", attributes={"paid": True}), e.RunStarted()], epoch=1)
    draft = Draft(history.state)
    apply(draft.view, e.AttributesSet(attributes={"paid": 1}), 3, 0)
    assert is_changed(draft, frozenset({e.AttributesSet}))
