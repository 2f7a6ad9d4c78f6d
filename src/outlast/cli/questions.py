"""Questions of runs: what an answer has to look like, in words, and what a typed text means as one."""

from __future__ import annotations

from typing import Any

from outlast.cli.parameters import WORDS, json_or_text
from outlast.client.answer_check import FORMATS, check_answer
from outlast.errors import InvalidInput
from outlast.views.actions import named
from outlast.views.texts import cropped

_SAID = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "null": "null",
    "array": "a JSON list",
    "object": "a JSON object",
}
_MOST_CHOICES = 12


def understood(text: str, schema: Any) -> Any:
    """The answer that a text means: the text itself where one is asked for, a word for yes or no, else JSON. `InvalidInput`
    says what is wanted instead."""
    plainly = named(schema)
    if plainly.get("type") == "boolean" and text.strip().lower() in WORDS:
        return WORDS[text.strip().lower()]
    is_text = plainly.get("type") == "string" or text in plainly.get("enum", ())
    forms: list[Any] = [text]
    try:
        read = json_or_text(text, "the answer")
        forms = [text, read] if is_text else [read, text]
    except InvalidInput:
        if not is_text:
            raise
    refusal = None
    for form in forms:
        try:
            check_answer(form, schema)
        except InvalidInput as error:
            refusal = refusal or error
        else:
            return form
    asked_for = wanted(schema)
    raise refusal if refusal and asked_for in str(refusal) else InvalidInput(f"{refusal} (wanted is {asked_for})")


def wanted(schema: Any) -> str:
    """What an answer has to look like."""
    found = named(schema)
    if "enum" in found:
        shown = ", ".join(cropped(str(each), 40) for each in found["enum"][:_MOST_CHOICES])
        return f"one of {shown}{', …' if len(found['enum']) > _MOST_CHOICES else ''}"
    if choices := found.get("anyOf", found.get("oneOf")):
        parts = [wanted({**choice, "$defs": found.get("$defs", {})}) for choice in choices]
        return " or ".join(dict.fromkeys(parts))
    kind = found.get("type")
    if kind == "object" and found.get("properties"):
        return f"a JSON object with {', '.join(cropped(name, 40) for name in found['properties'])}"
    if kind == "string" and found.get("format"):
        form = str(found["format"])
        return FORMATS[form][1] if form in FORMATS else f"a {cropped(form, 40)}"
    return _SAID.get(kind, "any text, or JSON") if isinstance(kind, str) else "any text, or JSON"
