"""Words that people give, which the log keeps as they are."""

from __future__ import annotations

import pytest

import outlast as ol
from outlast.values.checked_text import LONGEST, words


def test_words_are_kept_as_they_are_up_to_a_length() -> None:
    assert words("title", "") == ""
    assert words("title", "é" * LONGEST) == "é" * LONGEST
    with pytest.raises(
        ol.InvalidInput,
        match=r"title has 100,001 characters; at most 100,000 are allowed. Pass a text of that length as",
    ):
        words("title", "x" * (LONGEST + 1))


@pytest.mark.parametrize("given", [5, None, b"", b"x", ["x"], 0])
def test_what_is_no_text_is_refused(given: object) -> None:
    with pytest.raises(ol.InvalidInput, match="reason must be a text, not"):
        words("reason", given)
