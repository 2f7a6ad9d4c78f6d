"""Questions of runs: what an answer has to look like, in words, and what a typed text means as one."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from outlast.cli.parameters import WORDS, json_or_text
from outlast.cli.texts import cropped
from outlast.client.answer_check import FORMATS, must_fit
from outlast.errors import InvalidInput
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait

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


def schema_of(question: Wait) -> Any:
    """The JSON schema of its answers; None if any will do."""
    return msgspec.json.decode(question.detail)


def understood(text: str, schema: Any) -> Any:
    """The answer that a text means: the text itself where one is asked for, a word for yes or no, else JSON. `InvalidInput`
    says what is wanted instead."""
    plainly = _named(schema)
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
            must_fit(form, schema)
        except InvalidInput as error:
            refusal = refusal or error
        else:
            return form
    asked_for = wanted(schema)
    raise refusal if refusal and asked_for in str(refusal) else InvalidInput(f"{refusal} (wanted is {asked_for})")


def wanted(schema: Any) -> str:
    """What an answer has to look like."""
    named = _named(schema)
    if "enum" in named:
        shown = ", ".join(cropped(str(each), 40) for each in named["enum"][:_MOST_CHOICES])
        return f"one of {shown}{', …' if len(named['enum']) > _MOST_CHOICES else ''}"
    if choices := named.get("anyOf", named.get("oneOf")):
        parts = [wanted({**choice, "$defs": named.get("$defs", {})}) for choice in choices]
        return " or ".join(dict.fromkeys(parts))
    kind = named.get("type")
    if kind == "object" and named.get("properties"):
        return f"a JSON object with {', '.join(cropped(name, 40) for name in named['properties'])}"
    if kind == "string" and named.get("format"):
        form = str(named["format"])
        return FORMATS[form][1] if form in FORMATS else f"a {cropped(form, 40)}"
    return _SAID.get(kind, "any text, or JSON") if isinstance(kind, str) else "any text, or JSON"


def _named(schema: Any) -> dict[str, Any]:
    """A schema without the detour over a definition."""
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        known = schema.get("$defs", {})
        found = known.get(str(schema["$ref"]).rpartition("/")[2])
        return {**found, "$defs": known} if isinstance(found, dict) else {}
    return schema


def how_to_answer(run: RunId, question: Wait, where: str, *, is_only: bool = True) -> str:
    """The command that answers it; `where` is what names the store, if that has to be said."""
    value = "--yes|--no" if _named(schema_of(question)).get("type") == "boolean" else "VALUE"
    which = "" if is_only else f" --interaction {shlex.quote(question.id)}"
    return f"outlast answer {run} {value}{which}{where}"
