"""Errors come back as themselves, or by name (R5)."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from outlast.errors import CODES, Illegal, NodeFailure, NotFound, OutlastError, Rejected
from outlast.history import events as e
from outlast.history.codec import decode, encode
from outlast.history.events import Failure
from outlast.values.codec import encode as encode_value
from outlast.values.failures import LARGEST_DATA, LONGEST_TEXT, REMOTE, error_from, failure_of


class ShopError(Exception):
    """A user's error with an `__init__` of its own."""

    def __init__(self, order: int, *, status: str) -> None:
        super().__init__(f"order {order} is {status}")
        self.order = order
        self.status = status


class SoldOutError(ShopError):
    retryable = False


class Hiccup(Exception):
    retryable = True


class Loud(Exception):
    """Whatever one does with it, it complains."""

    def __init__(self) -> None:
        raise AssertionError("nobody may call this")

    def __str__(self) -> str:
        raise RuntimeError("no")

    @property
    def retryable(self) -> bool:
        raise RuntimeError("no")


class Outer:
    class Inner(ValueError):
        pass


@dataclasses.dataclass
class Told(Exception):
    code: int
    why: str = ""


def local_error() -> Exception:
    class Local(Exception):
        pass

    return Local("here")


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as again:
        return again


def back(error: BaseException) -> Exception:
    """The error after it went through the bytes of a log."""
    told = e.NodeFailed(node="n", error=failure_of(caught(error)))
    (event,) = decode(encode([told]))
    assert isinstance(event, e.NodeFailed)
    return error_from(event.error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        ValueError(),
        KeyError("missing"),
        KeyError(("a", 1)),
        StopAsyncIteration(3),
        ZeroDivisionError("x", 2, None),
        FileNotFoundError(2, "No such file", "/a/b"),
        OSError(28, "full", "a", None, "b"),
        ConnectionResetError(104, "reset"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        ImportError("no", name="mod", path="/p"),
        SyntaxError("bad", ("f.py", 1, 2, "x =", 1, 3)),
        ShopError(3, status="lost"),
        SoldOutError(3, status="gone"),
        Outer.Inner("x"),
        Told(3, "because"),
        Illegal("V4", "twice", seq=3),
        NotFound("no run"),
        NodeFailure("gone.module:Error", "it was"),
        asyncio.QueueEmpty(),
        TimeoutError("slow"),
    ],
    ids=repr,
)
def test_an_error_comes_back_as_itself(error: Exception) -> None:
    again = back(error)
    assert type(again) is type(error)
    assert again.args == error.args
    assert str(again) == str(error)
    assert {name: value for name, value in vars(again).items() if name != "__notes__"} == vars(error)


def test_what_an_os_error_is_about_comes_back() -> None:
    again = back(FileNotFoundError(2, "No such file", "/a/b"))
    assert isinstance(again, FileNotFoundError)
    assert (again.errno, again.strerror, again.filename) == (2, "No such file", "/a/b")


def test_user_code_catches_it_as_before() -> None:
    with pytest.raises(ShopError) as error:
        raise back(SoldOutError(3, status="gone"))
    assert (error.value.order, error.value.status) == (3, "gone")


def test_a_group_comes_back_with_its_errors() -> None:
    group = ExceptionGroup("many", [ValueError("a"), ExceptionGroup("more", [ShopError(1, status="x"), KeyError("k")])])
    again = back(group)
    seen: list[str] = []
    try:
        raise again
    except* ValueError as some:
        seen += map(repr, some.exceptions)
    except* ShopError as some:
        seen += [str(each) for each in some.exceptions[0].exceptions]  # type: ignore[attr-defined]
    except* KeyError:
        seen.append("key")
    assert seen == ["ValueError('a')", "order 1 is x", "key"]


def raised_from(error: BaseException, cause: BaseException | None) -> BaseException:
    try:
        raise error from cause
    except BaseException as again:
        return again


def test_the_causes_of_an_error_come_back() -> None:
    deepest = ShopError(3, status="lost")
    again = back(raised_from(ValueError("shallow"), raised_from(KeyError("deep"), deepest)))
    assert repr(again.__cause__) == "KeyError('deep')"
    assert again.__cause__ is not None
    assert type(again.__cause__.__cause__) is ShopError
    assert vars(again.__cause__.__cause__) == vars(deepest)
    assert again.__suppress_context__


@pytest.mark.parametrize("error", [local_error, lambda: NodeFailure("gone.module:Error", "x")], ids=["local", "gone"])
def test_the_cause_of_an_error_that_is_told_by_its_name_comes_back(error: Any) -> None:
    again = back(raised_from(error(), KeyError("deep")))
    assert isinstance(again, NodeFailure)
    assert repr(again.__cause__) == "KeyError('deep')"


def test_an_error_without_a_cause_has_none_and_one_that_causes_itself_is_told() -> None:
    assert back(ValueError("x")).__cause__ is None
    assert back(raised_from(ValueError("x"), None)).__cause__ is None
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert str(back(first).__cause__) == "second"


def test_a_cause_that_cannot_be_looked_at_or_is_too_large_spoils_nothing() -> None:
    assert type(back(raised_from(ValueError("x"), Loud.__new__(Loud))).__cause__) is Loud
    again = back(
        raised_from(ShopError(3, status="lost"), ValueError(list(range(LARGEST_DATA // 2)), "y" * LARGEST_DATA))
    )
    assert isinstance(again, ShopError)
    assert again.order == 3


def test_an_argument_that_cannot_be_stored_leaves_the_message() -> None:
    again = back(ValueError("lock", threading.Lock()))
    assert type(again) is ValueError
    assert "lock" in str(again)


def test_an_attribute_that_cannot_be_stored_is_left_out_alone() -> None:
    error = ShopError(3, status="x")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    again = back(error)
    assert isinstance(again, ShopError)
    assert again.order == 3
    assert not hasattr(again, "lock")


def test_no_code_of_the_users_is_called() -> None:
    error = Loud.__new__(Loud)
    failure = failure_of(error)
    assert "cannot be shown" in failure.message
    assert type(error_from(failure)) is Loud


@pytest.mark.parametrize(
    "kind",
    [
        "nowhere.to.be.found:Error",
        "builtins:print",
        "builtins:eval",
        "builtins:int",
        "builtins:BaseException",
        "builtins:KeyboardInterrupt",
        "builtins:SystemExit",
        "asyncio.exceptions:CancelledError",
        "os:system",
        "os:path",
        "subprocess:Popen",
        "builtins:",
        "builtins",
        ":",
        "",
        "../evil:Error",
        ".relative:Error",
        "tests.x:f.<locals>.Local",
        "builtins:ValueError.__class__",
        "builtins:ValueError.__init__",
    ],
)
def test_what_is_no_error_class_here_comes_back_by_name(kind: str) -> None:
    again = error_from(Failure(kind=kind, message="m", data=Raw(b'{"args":["echo"]}')))
    assert type(again) is NodeFailure
    assert (again.kind, again.message) == (kind, "m")


def test_an_error_of_a_local_class_comes_back_by_name() -> None:
    again = back(local_error())
    assert isinstance(again, NodeFailure)
    assert isinstance(again, OutlastError)
    assert again.message == "here"
    assert "Local" in again.kind


@given(data=st.binary(max_size=20) | st.recursive(st.none() | st.text(), st.lists).map(msgspec.json.encode))
def test_data_that_is_damaged_does_no_more_harm(data: bytes) -> None:
    assert isinstance(error_from(Failure(kind="builtins:ValueError", message="m", data=Raw(data))), Exception)


def test_a_module_that_was_not_imported_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_errors.py").write_text("class LateError(Exception): pass\n")
    (tmp_path / "exits.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert type(error_from(Failure(kind="late_errors:LateError", message="m"))).__name__ == "LateError"
    assert isinstance(error_from(Failure(kind="exits:Error", message="m")), NodeFailure)


def test_an_error_of_the_script_itself_comes_back(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            from outlast.values.failures import error_from, failure_of
            class Mine(ValueError):
                pass
            failure = failure_of(Mine("x"))
            assert failure.kind == "__main__:Mine", failure.kind
            try:
                raise error_from(failure)
            except Mine as again:
                print("caught", again)
        """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "caught x\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script that is run, and may be imported."""
    (tmp_path / "the_script.py").write_text("class Mine(ValueError): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "the_script", raising=False)
    main = ModuleType("__main__")
    main.__file__ = str(tmp_path / "the_script.py")
    main.Mine = type("Mine", (ValueError,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", main)
    return main


def test_an_error_of_a_script_is_that_of_the_module_where_the_script_is_imported(script: ModuleType) -> None:
    """Else a workflow that was run as a script, and caught it, does not catch it when another process goes on."""
    del script.Mine
    imported = importlib.import_module("the_script")
    assert type(error_from(Failure("__main__:Mine", "m"), near="the_script")) is imported.Mine


def test_an_error_of_a_module_is_that_of_the_script_where_the_module_is_run(script: ModuleType) -> None:
    assert type(error_from(Failure("the_script:Mine", "m"), near="__main__")) is script.Mine
    assert "the_script" not in sys.modules, "to import a script does again what it does by itself"


def test_an_error_of_a_module_is_its_own_where_the_code_is_the_modules(script: ModuleType) -> None:
    imported = importlib.import_module("the_script")
    assert type(error_from(Failure("the_script:Mine", "m"), near="the_script")) is imported.Mine


# --- what is kept ------------------------------------------------------------------------------------------------------


def test_the_trace_tells_the_users_frames_and_causes_and_is_a_note_afterwards() -> None:
    def inner() -> None:
        raise KeyError("deep")

    def outer() -> None:
        try:
            inner()
        except KeyError as cause:
            raise ValueError("shallow") from cause

    with pytest.raises(ValueError) as error:
        outer()
    failure = failure_of(error.value)
    assert failure.kind == "builtins:ValueError"
    assert failure.message == "shallow"
    for part in ("in inner", "KeyError: 'deep'", "direct cause", "in outer", "ValueError: shallow"):
        assert part in failure.trace
    assert error_from(failure).__notes__ == [f"{REMOTE}\n{failure.trace}"]


def test_frames_of_the_runtime_are_left_out() -> None:
    with pytest.raises(OutlastError) as error:
        encode_value({"a": object()}, Any)
    trace = failure_of(error.value).trace
    assert "test_failures.py" in trace
    assert "values/codec.py" not in trace


def test_texts_are_bounded_and_the_end_of_a_trace_is_kept() -> None:
    failure = failure_of(caught(ValueError("x" * 50_000 + "end")))
    assert len(failure.message) == LONGEST_TEXT
    assert len(failure.trace) == LONGEST_TEXT
    assert failure.trace.endswith("end\n")
    assert len(failure_of(ValueError(list(range(LARGEST_DATA)))).data) <= LARGEST_DATA


def test_texts_that_are_not_unicode_can_be_written_all_the_same() -> None:
    again = back(ValueError("a\ud800b"))
    assert str(again) == "a\\ud800b"


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (ValueError(), "transient"),
        (TimeoutError(), "timeout"),
        (asyncio.CancelledError(), "cancelled"),
        (ConnectionResetError(), "transient"),
        (SoldOutError(1, status="x"), "permanent"),
        (KeyboardInterrupt(), "permanent"),
        (SystemExit(1), "permanent"),
        (GeneratorExit(), "permanent"),
    ],
    ids=repr,
)
def test_an_error_is_treated_by_its_class(error: BaseException, category: str) -> None:
    assert failure_of(error).category == category


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (ValueError(), "permanent"),
        (KeyError(), "transient"),
        (Hiccup(), "transient"),
        (ConnectionResetError(), "transient"),
        (OSError(5, "I/O"), "transient"),
        (FileNotFoundError(), "permanent"),
        (BlockingIOError(), "permanent"),
        (IndexError(), "permanent"),
    ],
    ids=repr,
)
def test_a_policy_says_which_errors_another_attempt_may_cure(error: BaseException, category: str) -> None:
    """Permanent wins over transient: an IndexError is a LookupError too."""
    policy: Any = {"transient": (LookupError,), "permanent": (IndexError, BlockingIOError)}
    assert failure_of(error, **policy).category == category


def test_an_instance_may_say_whether_it_can_be_retried() -> None:
    error = ValueError()
    error.retryable = False  # type: ignore[attr-defined]
    assert failure_of(error).category == "permanent"
    error.retryable = "yes"  # type: ignore[attr-defined]
    assert failure_of(error).category == "transient"
    assert failure_of(error, category="rejected").category == "rejected"


# --- codes


def test_every_error_of_outlast_has_a_code_of_its_own() -> None:
    tree = [OutlastError]
    for cls in tree:
        tree += cls.__subclasses__()
    own = [cls for cls in tree if cls.__module__.partition(".")[0] == "outlast"]
    assert {code: each.error for code, each in CODES.items() if each.error} == {cls.code: cls for cls in own}
    assert all(each.cause and each.remedy for each in CODES.values())
    assert all(re.fullmatch(r"outlast\.[a-z_]+", code) for code in CODES)


@pytest.mark.parametrize("code", sorted(code for code, each in CODES.items() if each.error))
def test_an_error_of_outlast_is_kept_by_its_code(code: str) -> None:
    cls = CODES[code].error
    assert cls is not None
    error = cls.__new__(cls)
    Exception.__init__(error, "why")
    failure = failure_of(error)
    assert failure.kind == code
    assert type(error_from(failure)) is cls


class Refusal(Rejected):
    """A user's own, which inherits an attribute `code`."""


class Numbered(OutlastError):
    code = ["E42"]  # type: ignore[assignment]  # noqa: RUF012


@pytest.mark.parametrize("cls", [Refusal, Numbered])
def test_a_class_of_the_users_is_kept_by_its_path_although_it_inherits_from_one_of_ours(cls: type[Exception]) -> None:
    failure = failure_of(cls("why"))
    assert failure.kind == f"{__name__}:{cls.__name__}"
    assert type(error_from(failure, __name__)) is cls


def test_a_code_without_a_class_comes_back_by_name() -> None:
    error = error_from(Failure("outlast.run_ended", "over"))
    assert isinstance(error, NodeFailure)
    assert (error.kind, str(error)) == ("outlast.run_ended", "outlast.run_ended: over")
