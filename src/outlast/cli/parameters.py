"""Parameters from the command line, parsed by the annotations of the workflow."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from outlast.errors import InvalidInput
from outlast.history.events import Value
from outlast.lifecycle.attributes import parse_attribute
from outlast.lifecycle.timeline.phrases import cropped
from outlast.values.attributes import checked_attribute, checked_name
from outlast.values.type_codec import DEEPEST

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow

Called: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

WORDS = {
    **dict.fromkeys(("y", "yes", "true", "on"), True),
    **dict.fromkeys(("n", "no", "false", "off"), False),
}
"""Words for true and false."""
_STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def read_parameters(workflow: Workflow[..., Any], pairs: Sequence[str], document: str | None) -> Called:
    """The arguments of a workflow from `key=value` pairs and a JSON object. `InvalidInput` has the error and the signature
    of the workflow."""
    given: dict[str, Value] = {}
    for name, raw in members(document).items():
        given[_known(workflow, name)] = _checked(workflow, name, raw)
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidInput(f"{cropped(pair, 80)!r} is not key=value; {_signature(workflow)}")
        if _known(workflow, name) in given:
            raise InvalidInput(f"parameter {name} is given twice")
        given[name] = _parsed(workflow, name, text)
    _require_all(workflow, given)
    return workflow._arguments.unpack(msgspec.Raw(msgspec.json.encode(given)))


def read_attributes(pairs: Sequence[str]) -> dict[str, Any]:
    """Search attributes from `name=value` pairs."""
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--attribute {cropped(pair, 80)!r} is not name=value")
        if name in given:
            raise InvalidInput(f"--attribute {name} is given twice")
        where = f"--attribute {checked_name('--attribute', name)}"
        given[name] = checked_attribute(where, parse_attribute(where, text))
    return given


def members(document: str | None) -> dict[str, Value]:
    """The members of the JSON object of `--json`; `-` reads stdin."""
    if document is None:
        return {}
    text = sys.stdin.read() if document == "-" else document
    try:
        require_builtin(text, "--json")
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidInput(f"--json requires a JSON object, such as '{{\"key\": 1}}': {error}") from None


def _known(workflow: Workflow[..., Any], name: str) -> str:
    parameters = workflow._arguments.signature.parameters
    found = parameters.get(name)
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    if (found is None and not takes_any) or (found is not None and found.kind in _STARS):
        raise InvalidInput(f"unknown parameter {cropped(name, 80)!r}; {_signature(workflow)}")
    return name


def _parsed(workflow: Workflow[..., Any], name: str, text: str) -> Value:
    """The value of a text: JSON if it fits the annotation, else the text itself, else a word for true or false."""
    codec = workflow._arguments.codec(_taking(workflow, name))
    if codec.annotation is not str:
        _is_json(text, f"parameter {name}")  # refuses JSON that would be stored as another value
    forms = [text.encode(), msgspec.json.encode(text)]
    if codec.annotation is bool and text.lower() in WORDS:
        forms.append(msgspec.json.encode(WORDS[text.lower()]))
    for form in forms:
        try:
            msgspec.json.decode(form)
            codec.decode(form)
        except (InvalidInput, msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        return msgspec.Raw(form)
    return _checked(workflow, name, msgspec.Raw(forms[0] if _is_json(text, f"parameter {name}") else forms[1]))


def _checked(workflow: Workflow[..., Any], name: str, raw: Value) -> Value:
    codec = workflow._arguments.codec(_taking(workflow, name))
    try:
        codec.decode(raw)
    except InvalidInput as error:
        where, _, reason = str(error).partition(": ")
        part = where.removeprefix("value")
        reason = reason.replace("is stored", "is given").replace("from what is given", "from that")
        raise InvalidInput(f"parameter {name}{part}: {reason}; {_signature(workflow)}") from None
    return raw


def json_or_text(text: str, what: str) -> Any:
    """A value from the command line: JSON if it is valid JSON, else the text itself."""
    return msgspec.json.decode(text) if _is_json(text, what) else text


def read_json(text: str, what: str) -> Any:
    """The value of JSON text; `InvalidInput` if it is not JSON, or would be stored as another value."""
    try:
        require_builtin(text, what)
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None


def require_builtin(text: str, what: str) -> None:
    """`InvalidInput` if an object in the JSON has a key twice, which would lose a value, or if it is nested too deeply."""
    try:
        msgspec.json.decode(text)
        json.loads(text, object_pairs_hook=_distinct, parse_int=len, parse_float=len)
    except RecursionError:
        raise InvalidInput(f"{what}: the JSON is nested too deeply; a value can have up to {DEEPEST} levels") from None
    except _Twice as twice:
        raise InvalidInput(f"{what}: the key {cropped(str(twice), 80)!r} appears twice in one JSON object") from None


class _Twice(Exception):
    pass


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found


def _is_json(text: str, what: str) -> bool:
    try:
        require_builtin(text, what)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


def _taking(workflow: Workflow[..., Any], name: str) -> str:
    """The parameter that takes this name: itself, or `**kwargs`."""
    parameters = workflow._arguments.signature.parameters
    if name in parameters:
        return name
    return next(each.name for each in parameters.values() if each.kind is inspect.Parameter.VAR_KEYWORD)


def _require_all(workflow: Workflow[..., Any], given: dict[str, Value]) -> None:
    missing = [
        each.name
        for each in workflow._arguments.signature.parameters.values()
        if each.default is inspect.Parameter.empty and each.kind not in _STARS and each.name not in given
    ]
    if missing:
        noun = "parameter" if len(missing) == 1 else "parameters"
        raise InvalidInput(f"missing {noun} {', '.join(missing)}; {_signature(workflow)}")


def _signature(workflow: Workflow[..., Any]) -> str:
    signature = workflow._arguments.signature
    shown = signature.replace(
        parameters=[each.replace(annotation=_Bare.of(each.annotation)) for each in signature.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    return f"the workflow is {workflow.name}{cropped(str(shown), 400)}"


class _Bare(str):
    """An annotation that is a string, shown without quotes."""

    __slots__ = ()

    @staticmethod
    def of(annotation: Any) -> Any:
        return _Bare(annotation) if isinstance(annotation, str) else annotation

    def __repr__(self) -> str:
        return str(self)
