"""Questions of runs: a description of the expected answer, and an answer parsed from text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from outlast.cli.parameters import WORDS, json_or_text, members
from outlast.client.answer_check import FORMATS, check_answer
from outlast.errors import InvalidInput
from outlast.lifecycle.timeline.phrases import cropped
from outlast.views.actions import resolved

_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "null": "null",
    "array": "a JSON list",
    "object": "a JSON object",
}
_MAX_CHOICES = 12


def parsed(text: str, schema: Any) -> Any:
    """The answer in a text: the text itself if the schema accepts one, yes or no, or JSON. `InvalidInput` describes the
    expected answer."""
    found = resolved(schema)
    if found.get("type") == "boolean" and text.strip().lower() in WORDS:
        return WORDS[text.strip().lower()]
    is_text = found.get("type") == "string" or text in found.get("enum", ())
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
    description = expected(schema)
    raise refusal if refusal and description in str(refusal) else InvalidInput(f"{refusal} (expected {description})")


def parameters_by_schema(
    schemas: Mapping[str, Any], pairs: Sequence[str], document: str | None
) -> dict[str, msgspec.Raw]:
    """Parameters from `key=value` pairs and a JSON object, by the JSON Schema of each. Unknown and missing ones are refused
    where the workflow is known."""
    given = members(document)
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidInput(f"{cropped(pair, 80)!r} is not key=value")
        if name in given:
            raise InvalidInput(f"parameter {name} is given twice")
        try:
            given[name] = msgspec.Raw(msgspec.json.encode(parsed(text, schemas.get(name))))
        except InvalidInput as error:
            raise InvalidInput(f"parameter {name}: {error}") from None
    return given


def expected(schema: Any) -> str:
    """A description of the answers that the schema accepts."""
    found = resolved(schema)
    if "enum" in found:
        shown = ", ".join(cropped(str(each), 40) for each in found["enum"][:_MAX_CHOICES])
        return f"one of {shown}{', …' if len(found['enum']) > _MAX_CHOICES else ''}"
    if choices := found.get("anyOf", found.get("oneOf")):
        parts = [expected({**choice, "$defs": found.get("$defs", {})}) for choice in choices]
        return " or ".join(dict.fromkeys(parts))
    kind = found.get("type")
    if kind == "object" and found.get("properties"):
        return f"a JSON object with {', '.join(cropped(name, 40) for name in found['properties'])}"
    if kind == "string" and found.get("format"):
        form = str(found["format"])
        return FORMATS[form][1] if form in FORMATS else f"a {cropped(form, 40)}"
    return _TYPES.get(kind, "any text, or JSON") if isinstance(kind, str) else "any text, or JSON"
