"""What runs leave behind does not give a secret away, whatever their code does with it (R4)."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import careless
import pytest

import outlast as ol
from outlast.history import events as e
from outlast.values import secret_patterns

SOON = 20.0
ODD = 'kj3h4"its/odd'
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASC\n-----END PRIVATE KEY-----\n"
SAID = "the value of a secret must not be stored"


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
    await ol.continue_as_new(str(key.reveal()))


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


@ol.workflow
async def asking_with(key: ol.Secret) -> None:
    await ol.ask(f"is {key.reveal()} right?")


@ol.workflow
async def asking_with_itself(key: ol.Secret) -> None:
    await ol.approve(key.reveal())


@ol.workflow
async def asking_under(key: ol.Secret) -> None:
    await ol.approve("go on?", key=f"with {key.reveal()}")


@ol.workflow
async def stepping_into(key: ol.Secret) -> None:
    async with ol.step(f"with {key.reveal()}"):
        await using("it")


@ol.workflow
async def calling_under(key: ol.Secret) -> None:
    await using.options(id=f"{key.reveal()}")("it")


@ol.workflow
async def starting_under(key: ol.Secret) -> None:
    await ending_with.options(idempotency_key=f"{key.reveal()}")(key)


@ol.workflow
async def starting_with_a_title(key: ol.Secret) -> None:
    await ending_with.options(title=f"{key.reveal()}")(key)


@pytest.mark.parametrize(
    "workflow",
    [
        asking_with,
        asking_with_itself,
        asking_under,
        stepping_into,
        calling_under,
        starting_under,
        starting_with_a_title,
    ],
)
async def test_words_that_a_workflow_gives_hold_no_secret(
    stage: Any, monkeypatch: pytest.MonkeyPatch, workflow: Any
) -> None:
    monkeypatch.setenv("SHOP_KEY", ODD.replace('"', "").replace("\\", ""))
    error = await failed(stage, workflow, KEY)
    assert isinstance(error, ol.NotStorable)
    assert SAID in str(error)
    await must_not_be_there(stage, KEY.reveal())


PLAIN = "hunter2-of-the-north"


@ol.workflow
async def waiting_for_word(what: str) -> str:
    return await ol.ask(what)


@pytest.mark.parametrize(
    ("option", "where"),
    [
        ({"id": PLAIN}, "id"),
        ({"idempotency_key": f"x {PLAIN}"}, "idempotency_key"),
        ({"title": f"x {PLAIN}"}, "title"),
        ({"tags": ("x", f"x {PLAIN}")}, "tags[1]"),
        ({"exclusive": PLAIN}, "exclusive"),
    ],
)
async def test_what_a_run_is_started_with_holds_no_secret(
    stage: Any, monkeypatch: pytest.MonkeyPatch, option: Any, where: str
) -> None:
    monkeypatch.setattr(secret_patterns, "known", {})
    engine = await stage.engine()
    early = waiting_for_word.options(**option)  # before anybody knows that it is a secret
    monkeypatch.setenv("SHOP_KEY", PLAIN)
    KEY.reveal()
    with pytest.raises(ol.NotStorable) as error:
        await engine.start(early, "what?")
    assert str(error.value).startswith(f"{where}: {SAID}")
    await stage.close(engine)
    await must_not_be_there(stage, PLAIN)


async def test_what_people_say_about_a_run_holds_no_secret(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", PLAIN)
    engine = await stage.engine()
    run = (await engine.start(waiting_for_word, "what?")).run
    await soon(stage.until(engine, run, e.InteractionRequested))
    KEY.reveal()
    before = (await engine.get(run)).at
    for verb in (
        lambda: engine.answer(run, "this", by=PLAIN),
        lambda: engine.cancel(run, reason=PLAIN),
        lambda: engine.pause(run, by=PLAIN),
        lambda: engine.resume(run, by=PLAIN),
        lambda: engine.retry(run, "x", reason=PLAIN),
        lambda: engine.jump(run, "start", reason=PLAIN),
        lambda: engine.rewind(run, 1, by=PLAIN),
        lambda: engine.activate(run, 0, by=PLAIN),
        lambda: engine.migrate(run, reason=PLAIN),
        lambda: engine.fork(run, id=PLAIN),
        lambda: engine.fork(run, title=PLAIN),
        lambda: engine.pause_all([run], reason=PLAIN),
    ):
        with pytest.raises(ol.NotStorable, match=SAID):
            await verb()
    assert (await engine.get(run)).at == before


class Loud(str):
    """A text with a class of its own."""

    __slots__ = ()


async def test_words_of_other_classes_are_stored_as_texts(stage: Any) -> None:
    engine = await stage.engine()
    loud = waiting_for_word.options(title=Loud("title"), tags=(Loud("tag"),), idempotency_key=Loud("key"))

    handle = await engine.start(loud, Loud("what?"))
    await soon(stage.until(engine, handle.run, e.InteractionRequested))
    await engine.answer(handle.run, "this", by=Loud("me"))
    assert await soon(handle.result()) == "this"
    seen = await handle.get()
    assert (seen.title, seen.tags) == ("title", ("tag",))


@pytest.mark.parametrize(
    "option", [{"title": 5}, {"tags": (5,)}, {"tags": 5}, {"exclusive": 5}, {"id": 5}, {"title": "\ud800"}]
)
def test_words_that_are_no_texts_are_refused(option: Any) -> None:
    with pytest.raises(ol.InvalidInput):
        waiting_for_word.options(**option)


@ol.workflow
async def logging_it(key: ol.Secret) -> None:
    told = logging.getLogger("shop")
    told.warning("workflow has %s", key.reveal(), extra={"used": str(key.reveal())})
    await logging_it_too(key)


@ol.node
async def logging_it_too(key: ol.Secret) -> None:
    told = logging.getLogger("shop")
    told.warning("node has %s", key.reveal())
    try:
        raise ValueError(str(key.reveal()))
    except ValueError:
        told.exception("failed")


async def test_no_handler_of_the_program_is_given_a_secret_by_a_run(
    stage: Any, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await stage.engine()
    await soon((await engine.start(logging_it, KEY)).result())
    assert [record.getMessage().strip() for record in caplog.records if record.name == "shop"] == [
        "workflow has ***",
        "node has ***",
        "failed",
    ]
    there = repr([vars(record) for record in caplog.records]) + caplog.text
    assert not [line for line in value.splitlines() if line in there or repr(line)[1:-1] in there]


async def test_no_handler_in_a_helper_process_is_given_a_secret(
    stage: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHOP_KEY", PLAIN)

    @ol.workflow
    async def flow(key: ol.Secret, file: str) -> None:
        await careless.logging_in_a_process(key, file)

    engine = await stage.engine()
    await soon((await engine.start(flow, KEY, str(tmp_path / "own.log"))).result())
    assert (tmp_path / "own.log").read_text() == "with ***\n"


async def test_what_else_a_program_logs_is_its_own(
    stage: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SHOP_KEY", PLAIN)
    await stage.engine()
    KEY.reveal()
    logging.getLogger("shop").warning("it says %s", PLAIN)
    assert f"it says {PLAIN}" in caplog.text


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
