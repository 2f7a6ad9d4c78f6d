"""What is released, as a stranger gets it: the wheel in an empty environment with the locked dependencies."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest

from outlast import __version__

ROOT = Path(__file__).parents[2]
PATIENCE = 300
pytestmark = pytest.mark.release
FIRST_PAGES = ["docs/tutorial/1-first-workflow.md"]
"""Pages whose commands are typed in the new environment."""
BUILD = ["wheel", "--quiet", "--no-deps", "--no-build-isolation"]
"""As `make wheel` builds it: with the build tools that are locked and installed, never with others from the network."""


SERVER = ("anyio", "click", "h11", "httptools", "idna", "prometheus-client", "starlette", "uvicorn", "wsproto")
"""What `outlast[server]` needs besides what is locked for the runtime."""


def sh(*command: str | Path, cwd: Path) -> str:
    """What a command says in a folder that knows nothing of this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST_", "PYTHON", "PYTEST_"))}
    ran = subprocess.run(command, cwd=cwd, env=kept, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    sh(sys.executable, "-m", "pip", *BUILD, "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def bin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and what is locked for it."""
    home = tmp_path_factory.mktemp("stranger") / "venv"
    venv.create(home, with_pip=True)
    programs = home / ("Scripts" if os.name == "nt" else "bin")
    pip = [programs / "python", "-m", "pip", "install", "--quiet"]
    sh(*pip, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt", cwd=home)
    sh(*pip, "--no-deps", "--no-index", wheel, cwd=home)
    return programs


def test_the_wheel_is_pure_python_typed_and_complete(wheel: Path) -> None:
    assert wheel.name == f"outlast-{__version__}-py3-none-any.whl"
    held = set(ZipFile(wheel).namelist())
    ours = {
        f"outlast/{path.relative_to(ROOT / 'src' / 'outlast')}" for path in (ROOT / "src" / "outlast").rglob("*.py")
    }
    assert ours - held == set()
    assert "outlast/py.typed" in held
    assert "outlast/http/page/index.html" in held
    assert any(name.startswith("outlast/http/page/assets/") and name.endswith(".js") for name in held)
    assert {name.split("/")[0] for name in held} == {"outlast", f"outlast-{__version__}.dist-info"}


def test_the_wheel_brings_the_fixtures_for_pytest_along(wheel: Path) -> None:
    said = ZipFile(wheel).read(f"outlast-{__version__}.dist-info/entry_points.txt").decode()
    assert "[pytest11]\noutlast = outlast.testing.plugin" in said


def test_the_make_verb_builds_it_the_same_way() -> None:
    assert f"pip {' '.join(BUILD)} --wheel-dir dist ." in (ROOT / "Makefile").read_text()


def test_it_is_imported_and_says_its_version(bin: Path, tmp_path: Path) -> None:
    assert sh(bin / "outlast", "--version", cwd=tmp_path) == f"outlast {__version__}\n"
    said = sh(
        bin / "python", "-c", "import outlast; print(outlast.__version__, outlast.__file__)", cwd=tmp_path
    ).split()
    assert said[0] == __version__
    assert Path(said[1]).is_relative_to(bin.parent)


def test_what_is_locked_is_all_that_it_needs(bin: Path, tmp_path: Path) -> None:
    sh(bin / "python", "-m", "pip", "check", cwd=tmp_path)


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_what_a_newcomer_is_told_to_type_runs(page: str, bin: Path, tmp_path: Path) -> None:
    typed = _typed(ROOT / page)
    assert typed
    for program, *arguments in typed:
        sh(bin / program, *arguments, cwd=tmp_path)
    assert (tmp_path / ".outlast" / "runs.db").is_file()


def test_a_new_project_runs(bin: Path, tmp_path: Path) -> None:
    sh(bin / "outlast", "init", "my-project", cwd=tmp_path)
    sh(bin / "python", "flows.py", cwd=tmp_path / "my-project")
    assert len(sh(bin / "outlast", "ps", "-o", "ids", cwd=tmp_path / "my-project").split()) == 1


def test_a_server_from_the_wheel_serves_the_page_without_node(bin: Path, tmp_path: Path) -> None:
    lines = (ROOT / "requirements" / "dev.txt").read_text()
    locked = [each for each in re.split(r"\n(?=\S)", lines) if each.startswith(tuple(f"{name}==" for name in SERVER))]
    assert len(locked) == len(SERVER)
    (tmp_path / "server.txt").write_text("\n".join(locked))
    sh(bin / "python", "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", "server.txt", cwd=tmp_path)
    sh(bin / "python", "-m", "pip", "check", cwd=tmp_path)
    command = [bin / "outlast", "serve", "--port", "0"]
    environment = {"PATH": str(bin), "HOME": str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = next(line.split()[2] for line in server.stderr if line.startswith("Serving on "))
            with urlopen(f"{address}/", timeout=PATIENCE) as response:
                html = response.read().decode()
            assert '<base href="/">' in html
            script = re.findall(r'<script type="module"[^>]* src="\./(assets/[^"]+\.js)"', html)[0]
            with urlopen(f"{address}/{script}", timeout=PATIENCE) as response:
                assert response.headers["content-type"].startswith("text/javascript")
        finally:
            server.kill()


def _typed(page: Path) -> list[list[str]]:
    """The commands of a page's console blocks; the wheel is installed already."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [words for words in map(shlex.split, lines) if words[0] != "pip"]
