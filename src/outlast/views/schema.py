"""The published JSON Schema of the views (draft 2020-12)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from outlast.errors import NotFound
from outlast.lifecycle.explanation import Explanation
from outlast.views import types

SCHEMA_VERSION = 1
"""The version of all views together. It is incremented when a field is renamed, removed or changes its meaning."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _name(view: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", view.removesuffix("View")).lower()


VIEWS: dict[str, type[msgspec.Struct]] = {
    _name(view.__name__): view
    for view in vars(types).values()
    if isinstance(view, type) and issubclass(view, types.View) and view is not types.View
} | {"explanation": Explanation}
"""Every view by its name in the schema: `run`, `run_list`, `event`."""


def json_schema(name: str | None = None) -> dict[str, Any]:
    """The JSON Schema of the view of that name, or a document with the schemas of all views."""
    if name is not None and name not in VIEWS:
        raise NotFound(f"there is no view {name!r}; the views are: {', '.join(sorted(VIEWS))}")
    chosen = VIEWS if name is None else {name: VIEWS[name]}
    references, definitions = msgspec.json.schema_components(chosen.values(), ref_template="#/$defs/{name}")
    head = {"$schema": DIALECT, "$id": f"urn:outlast:views:{SCHEMA_VERSION}{'' if name is None else f':{name}'}"}
    about: dict[str, Any] = {"title": "Outlast views"} if name is None else references[0]
    schema = {**head, **about, "$defs": dict(sorted(definitions.items()))}
    found: dict[str, Any] = plain(msgspec.json.decode(msgspec.json.encode(schema)))  # defaults as JSON has them
    return found


def plain(schema: Any) -> Any:
    """The same on every version of Python: newer ones remove the indent of docstrings."""
    if isinstance(schema, dict):
        text = schema.get("description")
        parts = {name: plain(part) for name, part in schema.items()}
        return {**parts, "description": " ".join(text.split())} if isinstance(text, str) else parts
    return [plain(part) for part in schema] if isinstance(schema, list) else schema
