"""Words that people give and the log keeps as they are: names, keys, prompts, titles, reasons (R4).

They are no values, and no codec sees them; so what a codec refuses is refused here: what is no text, text that is not
Unicode, and text that gives the value of a secret away.
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
"""Characters: words stand in the log and in lists as they are, where values have blobs."""


def words(where: str, text: Any) -> str:
    """The text as the log can hold it, a plain `str`; `where` is what a refusal calls it."""
    if text == "":
        return ""
    if not isinstance(text, str):
        raise InvalidInput(f"{where}: a text is needed, not {name_of(type(text))}")
    if len(text) > LONGEST:
        raise InvalidInput(
            f"{where}: {len(text):,} characters are more than {LONGEST:,}; give what is that long as a value"
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
    """The same for several texts, which are told by their places."""
    return tuple(words(f"{where}[{place}]", each) for place, each in enumerate(texts))
