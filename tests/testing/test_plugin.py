"""The fixtures as a user has them: in a project of their own, found by the entry point of the installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

FLOWS = """
import random
import outlast as ol

@ol.node
async def double(number: float) -> float:
    return number * 2

@ol.workflow
async def sound(number: int) -> float:
    await ol.sleep(days=9)
    return await double(await double(number))

@ol.workflow
async def broken(number: int) -> float:
    await double(1)
    return await double(random.random())
"""
TESTS = """
from flows import broken, sound

def test_sound(survives_crashes):
    assert survives_crashes(sound, number=2).result == 8

def test_broken(survives_crashes):
    survives_crashes(broken, number=2)

def test_days(outlast_engine):
    assert outlast_engine.start(sound, 1).result() == 4

def test_old_runs(replay_check):
    replay_check("runs/*.jsonl")
"""
RECORD = "from flows import sound; import outlast as ol; ol.open('runs.db').__enter__().start(sound.options(id='r'), 1)"


def python(pytester: pytest.Pytester, *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST_", "PYTEST_"))}
    ran = subprocess.run(
        [sys.executable, *words], cwd=pytester.path, env=kept, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_it_is_found_by_its_entry_point() -> None:
    assert [found.value for found in entry_points(group="pytest11", name="outlast")] == ["outlast.testing.plugin"]


def test_to_import_it_does_not_import_the_engine() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import sys, outlast.testing.plugin; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split()
    assert {name for name in said if name.startswith("outlast")} == {
        "outlast",
        "outlast.testing",
        "outlast.testing.plugin",
    }
    assert not {"msgspec", "apsw", "hypothesis"} & set(said)


@pytest.mark.parametrize("package", ["outlast", "outlast.testing"])
def test_every_public_name_is_found_whatever_modules_were_imported_before(package: str) -> None:
    code = f"""
import importlib, pkgutil, types, {package} as it
for each in it.__all__:
    assert not isinstance(getattr(it, each), types.ModuleType), each
for each in pkgutil.iter_modules(it.__path__, it.__name__ + "."):
    if each.name != "outlast.__main__":
        importlib.import_module(each.name)
for each in it.__all__:
    assert not isinstance(getattr(it, each), types.ModuleType), each
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_project_that_does_not_use_it_notices_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_one="import sys\n\ndef test_one():\n    assert 'outlast.compose' not in sys.modules\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*outlast:*")


def test_what_a_user_sees(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(flows=FLOWS, test_flows=TESTS)
    (pytester.path / "runs").mkdir()
    python(pytester, "-c", RECORD)
    python(pytester, "-m", "outlast", "--store", "runs.db", "export", "r", "--to", "runs/r.jsonl")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "broken does not survive a crash.",
            "the process died at store call * of *, 'append', * it took effect",
            "run run-1 ended differently",
            "expected: completed, *",
            "*got: failed, held, outlast.run_diverged: the workflow's code no longer does what its log holds: at event 7 *"
            "node 'double#2' with other inputs*",
            "history of run run-1:",
            "*1  RunCreated*broken created*",
            "*RunTakenOver*",
            "*RunFailed*held for a person*",
            "* of * crash points were tried.",
            "Workflow code must make the same calls in every replay.*",
            "outlast: * crash points survived in 1 test",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*surviving.py*")


def test_code_that_has_changed_no_longer_replays(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        flows=FLOWS, test_flows="import flows\n\ndef test_old(replay_check):\n    replay_check('r.jsonl')\n"
    )
    python(pytester, "-c", RECORD)
    (pytester.path / "r.jsonl").write_text(python(pytester, "-m", "outlast", "--store", "runs.db", "export", "r"))
    pytester.makepyfile(flows=FLOWS.replace("await ol.sleep(days=9)", "number = await double(number)"))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "run r in r.jsonl: workflow sound no longer does what its log holds:",
            "  at event 3 the log has timer 'sleep'; the code asked for node 'double' (flows.py:10)",
            "  code and log agree up to event 2 of 3",
        ]
    )
