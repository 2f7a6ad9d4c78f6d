"""What runs leave behind does not give a secret away, whatever their code does with it (R4)."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e

HERE = Path(__file__).parent

sys.path.insert(0, str(HERE))
import careless  # noqa: E402

sys.path.remove(str(HERE))

SOON = 20.0
ODD = "kj3h4\"it's\\odd"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASC\n-----END PRIVATE KEY-----\n"
SAID = "a secret's value must not be stored"


async def soon(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, SOON)


@pytest.fixture(params=[ODD, PEM], ids=["odd", "pem"])
def value(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOP_KEY", request.param)
    return str(request.param)


KEY = ol.Secret("SHOP_KEY")


async def must_not_be_there(stage: Any, value: str) -> None:
    """Neither the value nor a line of it is in the files of the stage, as it is or escaped."""
    there = b"".join(path.read_bytes() for path in Path(stage.file).parent.rglob("*") if path.is_file())
    for line in value.splitlines():
        for form in (line, repr(line)[1:-1], json.dumps(line)[1:-1], json.dumps(repr(line)[1:-1])[1:-1]):
            assert form.encode() not in there


async def failed(stage: Any, workflow: Any, *params: Any) -> BaseException:
    """How a run of it failed."""
    engine = await stage.engine()
    handle = await engine.start(workflow, *params)
    with pytest.raises(Exception) as error:
        await soon(handle.result())
    await stage.close(engine)
    return error.value


def run_of(node: Any) -> Any:
    @ol.workflow
    async def flow(key: ol.Secret) -> Any:
        return await node(key)

    return flow


async def raising(key: ol.Secret) -> None:
    raise ValueError(f"bad password {key.reveal()}!")


async def missing(key: ol.Secret) -> None:
    raise KeyError(str(key.reveal()))


async def carrying(key: ol.Secret) -> None:
    raise careless.Refused(str(key.reveal()))


async def grouping(key: ol.Secret) -> None:
    raise ExceptionGroup("all", [ValueError(f"bad {key.reveal()}"), careless.Refused(str(key.reveal()))])


async def logging_it(key: ol.Secret) -> None:
    log, plain = logging.getLogger("shop"), str(key.reveal())
    log.warning("with %r in %s", plain, {"key": plain})
    try:
        raise ExceptionGroup("all", [ValueError(plain)])
    except ExceptionGroup:
        log.exception("not %s", plain)
    raise ValueError("enough")


@pytest.mark.parametrize("node", [raising, missing, carrying, grouping, logging_it])
async def test_neither_errors_nor_lines_of_a_node_give_a_secret_away(stage: Any, value: str, node: Any) -> None:
    await failed(stage, run_of(ol.node(node)), KEY)
    await must_not_be_there(stage, value)


@pytest.mark.parametrize("node", [careless.raising_in_a_process, careless.carrying_in_a_process])
async def test_errors_of_a_helper_process_do_not_give_a_secret_away(stage: Any, value: str, node: Any) -> None:
    await failed(stage, run_of(node), KEY)
    await must_not_be_there(stage, value)


async def test_what_a_node_prints_does_not_give_a_secret_of_many_lines_away(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "one\ntwo\nthree3")

    @ol.node
    async def printing(key: ol.Secret) -> None:
        print("with", key.reveal(), "in it")

    engine = await stage.engine(capture_stdout=True)
    handle = await engine.start(run_of(printing), KEY)
    await soon(handle.result())
    await stage.close(engine)
    desk = await stage.engine(worker=False)
    assert [line.text async for line in desk.lines(handle.run)] == ["with *** in it"]


async def test_progress_does_not_give_a_secret_away(stage: Any, value: str) -> None:
    @ol.node
    async def telling(key: ol.Secret) -> None:
        ol.progress(1, 2, f"with {key.reveal()}")
        raise ValueError("enough")

    await failed(stage, run_of(telling), KEY)
    await must_not_be_there(stage, value)


# --- refused -----------------------------------------------------------------------------------------------------------


async def returning(key: ol.Secret) -> Any:
    return {"rows": [("a", str(key.reveal()))]}


async def returning_a_key(key: ol.Secret) -> Any:
    return {f"Bearer {key.reveal()}": 1}


async def returning_bytes(key: ol.Secret) -> bytes:
    return b"ab" + key.reveal().encode()


async def keeping(key: ol.Secret) -> None:
    await ol.checkpoint([str(key.reveal())])


@pytest.mark.parametrize(
    "node",
    [
        *map(ol.node, (returning, returning_a_key, returning_bytes, keeping)),
        careless.returning_in_a_process,
        careless.keeping_in_a_process,
    ],
)
async def test_what_a_node_made_of_a_secret_is_refused_where_it_holds_its_value(
    stage: Any, value: str, node: Any
) -> None:
    error = await failed(stage, run_of(node), KEY)
    assert isinstance(error, ol.NotStorable)
    assert SAID in str(error)
    await must_not_be_there(stage, value)


@ol.node
async def using(text: str) -> int:
    return len(text)


@ol.workflow
async def passing_on(key: ol.Secret) -> int:
    return await using(f"Bearer {key.reveal()}")


@ol.workflow
async def ending_with(key: ol.Secret) -> str:
    return str(key.reveal())


@ol.workflow
async def going_on_with(key: Any) -> None:
    await ol.continue_as(str(key.reveal()))


@pytest.mark.parametrize("workflow", [passing_on, ending_with, going_on_with])
async def test_a_workflow_may_not_pass_the_value_of_a_secret_on(stage: Any, value: str, workflow: Any) -> None:
    error = await failed(stage, workflow, KEY)
    assert isinstance(error, ol.NotStorable)
    await must_not_be_there(stage, value)


async def test_the_value_of_a_secret_is_refused_as_a_parameter_and_as_an_answer(stage: Any, value: str) -> None:
    @ol.workflow
    async def asking(key: Any) -> Any:
        return await ol.ask("which?", Any)

    engine = await stage.engine()
    plain = str(KEY.reveal())
    with pytest.raises(ol.NotStorable, match=SAID):
        await engine.start(asking, plain)
    handle = await engine.start(asking, "none")
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    with pytest.raises(ol.NotStorable, match=SAID):
        await handle.answer([plain])


async def test_a_replay_does_not_depend_on_what_others_have_revealed(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose inputs were stored is not refused them later because they have become the value of a secret."""

    @ol.workflow
    async def flow(name: str) -> int:
        length = await using(name)
        await ol.approve("go on?")
        return length + await using(name)

    engine = await stage.engine()
    handle = await engine.start(flow, "eu-west-1/shop")
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    await stage.crash(engine)
    monkeypatch.setenv("SHOP_KEY", "eu-west-1/shop")
    KEY.reveal()
    engine = await stage.engine()
    again = await engine.handle(handle.run)
    await again.answer(True)
    assert await soon(again.result()) == 28
