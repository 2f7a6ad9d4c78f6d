"""Whether an answer is what was asked for, before anything is stored (P7): a plain reading of the question's schema."""

from __future__ import annotations

from typing import Any

from outlast.errors import BadInput

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def must_fit(tree: Any, schema: Any, where: str = "the answer") -> None:
    """`BadInput` says which part of an answer, as plain JSON, does not fit its JSON schema. What it does not know in a
    schema it lets pass: the run reads the answer by its own type."""
    _Fitting(schema if isinstance(schema, dict) else {}).check(tree, schema, where)


class _Fitting:
    def __init__(self, root: dict[str, Any]) -> None:
        self._definitions = root.get("$defs", {})

    def check(self, tree: Any, schema: Any, where: str) -> None:
        if not isinstance(schema, dict):
            return
        if "$ref" in schema:
            self.check(tree, self._definitions.get(str(schema["$ref"]).rpartition("/")[2]), where)
        if "anyOf" in schema:
            self._check_any(tree, schema["anyOf"], where)
        if "enum" in schema and tree not in schema["enum"]:
            raise BadInput(f"{where} is one of {', '.join(map(repr, schema['enum']))}, not {_shown(tree)}")
        if "type" in schema:
            self._check_type(tree, schema["type"], where)
        self._check_parts(tree, schema, where)

    def _check_any(self, tree: Any, choices: list[Any], where: str) -> None:
        refusals = []
        for choice in choices:
            try:
                return self.check(tree, choice, where)
            except BadInput as refusal:
                refusals.append(str(refusal))
        raise BadInput("; or ".join(refusals))

    def _check_type(self, tree: Any, name: Any, where: str) -> None:
        names = name if isinstance(name, list) else [name]
        kinds = tuple(kind for each in names for kind in _TYPES.get(each, (object,)))
        if not isinstance(tree, kinds) or (isinstance(tree, bool) and bool not in kinds and object not in kinds):
            raise BadInput(f"{where} is to be of type {' or '.join(map(str, names))}, not {_shown(tree)}")

    def _check_parts(self, tree: Any, schema: dict[str, Any], where: str) -> None:
        if isinstance(tree, dict):
            for name in schema.get("required", ()):
                if name not in tree:
                    raise BadInput(f"{where} lacks {name!r}")
            for name, part in schema.get("properties", {}).items():
                if name in tree:
                    self.check(tree[name], part, f"{where}, {name!r},")
        if isinstance(tree, list) and isinstance(schema.get("items"), dict):
            for place, part in enumerate(tree):
                self.check(part, schema["items"], f"{where}, item {place},")


def _shown(tree: Any) -> str:
    text = repr(tree)
    return text if len(text) <= 80 else f"{text[:79]}…"
