"""The published JSON Schema of the views, and the names that `outlast.views` exports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outlast import views
from outlast.errors import NotFound
from outlast.views import types
from outlast.views.schema import SCHEMA_VERSION, VIEWS, json_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "reference" / "views.schema.json"


def test_the_published_schema_is_current() -> None:
    """`make schema` writes it."""
    assert json.loads(PUBLISHED.read_text()) == json.loads(json.dumps(json_schema()))


def test_a_schema_stands_by_itself() -> None:
    for name, view in VIEWS.items():
        schema = json_schema(name)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert schema["$id"] == f"urn:outlast:views:{SCHEMA_VERSION}:{name}"
        assert schema["$ref"] == f"#/$defs/{view.__name__}"
        text = json.dumps(schema)
        used = {part.split('"')[0] for part in text.split("#/$defs/")[1:]}
        assert used <= set(schema["$defs"])


def test_every_field_of_a_view_is_promised_and_described() -> None:
    definitions = json_schema()["$defs"]
    for view in VIEWS.values():
        promised = definitions[view.__name__]
        assert promised["description"]
        assert list(promised["properties"]) == list(view.__struct_fields__)


def test_an_unknown_view_is_refused_by_name() -> None:
    with pytest.raises(NotFound, match="there is no view 'runs'; the views are: action, answer"):
        json_schema("runs")


def test_the_exported_names_are_these() -> None:
    results = {
        *(
            "BranchSummary",
            "Comparison",
            "Diagnosis",
            "Entry",
            "Finding",
            "Line",
            "Listed",
            "Page",
            "DryRun",
            "Explanation",
            "Report",
        ),
        *("RunSummary", "Verification", "Version", "Violation", "Wait", "WorkerRuns"),
    }
    named = {name for name in vars(types) if name.endswith("View")}
    assert set(dir(views)) == {*results, *named, "View", "VIEWS", "SCHEMA_VERSION", "json_schema"}
    for name in dir(views):
        assert getattr(views, name) is not None
