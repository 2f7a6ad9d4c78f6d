"""Traces: one for each run, whoever advances it; they continue the trace of a caller and hold no values."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.history.ids import RunId
from outlast.services.tracing import ROOT, is_configured, span_id, trace_of, valid_traceparent
from support.collector import Collector, collector
from support.workflow_tools import Gated, is_node, soon

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


def spans_of(found: Collector, run: str) -> list[Any]:
    return [span for span in found.spans if attributes(span)["outlast.run"] == run]


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def named(spans: list[Any], name: str) -> Any:
    (found,) = [span for span in spans if span.name == name]
    return found


def links(span: Any) -> set[tuple[bytes, bytes]]:
    return {(link.trace_id, link.span_id) for link in span.links}


def place(run: str, name: str = ROOT) -> tuple[bytes, bytes]:
    trace = trace_of(RunId(run), None).id.to_bytes(16)
    return trace, span_id(RunId(run), name).to_bytes(8)


async def test_a_run_is_one_trace_with_a_span_for_each_attempt(stage: Any, collected: Collector) -> None:
    @ol.node(retry=ol.Retry(max_attempts=2, delay=0.01))
    async def shaky(secret: str) -> str:
        if ol.context().attempt == 1:
            raise ConnectionError(f"the password is {secret}")
        return secret

    @ol.workflow
    async def traced(secret: str) -> str:
        return await shaky(secret)

    engine = await stage.engine()
    run = (await engine.start(traced, "swordfish")).run
    assert await soon(engine.result(run)) == "swordfish"
    await stage.close(engine)
    spans = spans_of(collected, run)
    assert {span.trace_id for span in spans} == {place(run)[0]}
    root = named(spans, "run traced")
    assert (root.span_id, root.parent_span_id) == (place(run)[1], b"")
    assert attributes(root)["outlast.status"] == "completed"
    failed, done = sorted(
        (span for span in spans if span.name == "node shaky"), key=lambda each: each.end_time_unix_nano
    )
    assert [attributes(each)["outlast.attempt"] for each in (failed, done)] == [1, 2]
    assert attributes(failed)["error.type"] == "builtins:ConnectionError"
    for span in (failed, done):
        assert span.parent_span_id == root.span_id
        assert (
            root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano
        )
    assert b"swordfish" not in collected.raw


async def test_children_branches_and_takeovers_are_linked(stage: Any, collected: Collector) -> None:
    gated = Gated()

    @ol.workflow
    async def child() -> str:
        return await gated.node("done")

    @ol.workflow
    async def parent() -> str:
        return await child.options(idempotency_key="c")()

    first = await stage.engine()
    run = (await first.start(parent)).run
    inner = None
    while inner is None:
        inner = next(iter([each async for each in first.iter_runs() if each.parent == run]), None)
    await soon(stage.until(first, inner.run, is_node("gated")))
    await stage.crash(first)
    gated.gate.set()
    second = await stage.engine()
    assert await soon(second.result(run)) == "done"
    await second.jump(inner.run, "gated", children="keep")
    while (await second.get(inner.run)).status != "completed":
        await asyncio.sleep(0.01)
    await stage.close(second)
    of_child = spans_of(collected, inner.run)
    assert place(run) in links(next(span for span in of_child if span.name.startswith("run ")))
    takeovers = [span for span in of_child if span.name == "takeover"]
    assert place(inner.run) in links(takeovers[0])
    attempts = [span for span in of_child if span.name == "node gated"]
    assert place(inner.run, "epoch 2") in links(attempts[0])
    assert place(inner.run) in links(named(of_child, "branch"))
    assert place(inner.run, "branch 1") in links(attempts[-1])


async def test_the_trace_of_a_caller_continues(stage: Any, collected: Collector) -> None:
    @ol.workflow
    async def called() -> int:
        return 1

    engine = await stage.engine()
    chosen = called.options()
    chosen._start_options["trace"] = CALLER
    run = (await engine.start(chosen)).run
    await soon(engine.result(run))
    chosen._start_options["trace"] = CALLER[:-2] + "00"
    unsampled = (await engine.start(chosen)).run
    await soon(engine.result(unsampled))
    await stage.close(engine)
    root = named(spans_of(collected, run), "run called")
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == tuple(CALLER.split("-")[1:3])
    assert not spans_of(collected, unsampled)


async def test_a_collector_that_is_away_delays_nobody(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")

    @ol.workflow
    async def untraced() -> int:
        return 1

    engine = await stage.engine()
    assert await soon((await engine.start(untraced)).result()) == 1
    async with asyncio.timeout(10):
        await stage.close(engine)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (CALLER, CALLER),
        (f" {CALLER.upper()} ", CALLER),
        (CALLER.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32), ""),
        (CALLER + "-more", ""),
        ("ff" + CALLER[2:], ""),
        ("x", ""),
        ("", ""),
    ],
)
def test_what_is_no_trace_context_is_ignored(text: str, kept: str) -> None:
    assert valid_traceparent(text) == kept


def test_traces_are_asked_for_by_the_variables_of_opentelemetry() -> None:
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector"}
    assert is_configured(given)
    assert not is_configured({})
    assert not is_configured(given | {"OTEL_SDK_DISABLED": "true"})
    assert not is_configured(given | {"OTEL_TRACES_EXPORTER": "none"})


def test_opentelemetry_is_imported_only_when_it_is_configured(tmp_path: Path) -> None:
    code = """
import sys, outlast as ol
with ol.open("runs.db") as engine:
    print([name for name in sys.modules if "opentelemetry" in name])
"""
    environment = {"PATH": "", "HOME": "/nonexistent"}
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment, check=True
    )
    assert found.stdout.strip() == "[]"
