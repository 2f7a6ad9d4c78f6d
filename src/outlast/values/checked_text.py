"""Texts that the log keeps unchanged: names, keys, prompts, titles, reasons (R4).

They are not values, so no codec checks them. The same is refused here: an object that is not a text, text that is not
Unicode, and text that contains the value of a secret.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.errors import InvalidInput, NotStorable
from outlast.values import secret_patterns
from outlast.values.find_secret import find_secret
from outlast.values.not_storable import SECRET, SURROGATE, name_of
from outlast.values.secrets import Revealed

LONGEST = 100_000
"""Characters: these texts are stored in the log and in lists in full, while values can be stored as blobs."""


def words(where: str, text: Any) -> str:
    """The text as a plain `str` that the log can hold. `where` describes it in an error."""
    if text == "":
        return ""
    if not isinstance(text, str):
        raise InvalidInput(f"{where} must be a text, not {name_of(type(text))}")
    if len(text) > LONGEST:
        raise InvalidInput(
            f"{where} has {len(text):,} characters; at most {LONGEST:,} are allowed. Pass a text of that length as a value"
        )
    plain = text if type(text) is str else str.__str__(text)
    try:
        body = msgspec.json.encode(plain)
    except UnicodeEncodeError:
        raise InvalidInput(f"{where}: {SURROGATE}") from None
    if type(text) is Revealed or (secret_patterns.known and find_secret(body) is not None):
        raise NotStorable(f"{where}: {SECRET}")
    return plain


def checked_texts(where: str, texts: Any) -> tuple[str, ...]:
    """The same for several texts, described by their positions."""
    return tuple(words(f"{where}[{place}]", each) for place, each in enumerate(texts))
