"""What is set and who said so (G1 to G5)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outlast.errors import InvalidInput
from outlast.settings import ALLOWED, KEYS, Profile, Settings, project_root, read_profile, read_settings, with_flags


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "outlast.toml").touch()
    return tmp_path


def read(start: Path, text: str | None = None, **places: Any) -> Settings:
    """What is in force in a project whose file says `text`, in an environment that says nothing else."""
    if text is not None:
        (start / "outlast.toml").write_text(text)
    return read_settings(start=start, **{"environment": {}, **places})


# --- where values come from


def test_what_nobody_set_is_the_default(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert settings == Settings(
        store=str(tmp_path / ".outlast" / "runs.db"), root=tmp_path, sources=dict.fromkeys(KEYS, "default")
    )
    assert (settings.blobs, settings.apps, settings.claim, settings.concurrency) == ("", (), 30.0, 2000)
    assert (settings.threads, settings.processes, settings.durability) == (32, 0, "full")
    assert (settings.on_restart, settings.capture_stdout, settings.grace) == ("resume", False, 5.0)


def test_the_nearest_place_wins_and_is_remembered(project: Path) -> None:
    """G1"""
    places: dict[str, Any] = {"text": "threads = 1"}
    assert _threads(read(project, **places)) == (1, f"file {project / 'outlast.toml'}")
    places["environment"] = {"OUTLAST_THREADS": "2"}
    assert _threads(read(project, **places)) == (2, "environment OUTLAST_THREADS")
    places["flags"] = {"threads": 3}
    assert _threads(read(project, **places)) == (3, "flag --threads")
    places["given"] = {"threads": 4}
    assert _threads(read(project, **places)) == (4, "argument")


def _threads(settings: Settings) -> tuple[int, str]:
    return settings.threads, settings.sources["threads"]


def test_what_is_none_or_an_empty_variable_is_not_given(project: Path) -> None:
    settings = read(project, given={"store": None}, flags={"claim": None}, environment={"OUTLAST_APPS": ""})
    assert set(settings.sources.values()) == {"default"}


def test_every_setting_can_be_given_in_every_place(project: Path) -> None:
    said = {
        "store": "/data/runs.db",
        "blobs": "/data/blobs",
        "apps": ("flows", "jobs.nightly"),
        "claim": 2.5,
        "concurrency": 7,
        "threads": 8,
        "processes": 9,
        "durability": "relaxed",
        "on_restart": "hold",
        "unawaited": "warn",
        "capture_stdout": True,
        "grace": 0.5,
        "queues": ("gpu", "mail"),
        "queue_limits": {"gpu": 3, "mail": 10},
        "dask": "tcp://scheduler:8786",
    }
    assert (*said, "url", "profile") == KEYS
    text = "\n".join(f"{key} = {_toml(value)}" for key, value in said.items())
    variables = {f"OUTLAST_{key.upper()}": _variable(value) for key, value in said.items()}
    expected = tuple(said.values())
    for place in ({"given": said}, {"flags": said}, {"environment": variables}, {"text": text}):
        (project / "outlast.toml").write_text("")
        settings = read(project, **place)
        assert tuple(getattr(settings, key) for key in said) == expected
        assert "default" not in [settings.sources[key] for key in said]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {number}' for name, number in value.items())} }}"
    return repr(list(value)) if isinstance(value, tuple) else str(value).lower() if value is True else repr(value)


def _variable(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={number}" for name, number in value.items())
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def test_a_flag_and_a_variable_are_named_as_they_are_typed(project: Path) -> None:
    settings = read(project, flags={"on_restart": "hold"}, environment={"OUTLAST_CAPTURE_STDOUT": "true"})
    assert settings.sources["on_restart"] == "flag --on-restart"
    assert settings.sources["capture_stdout"] == "environment OUTLAST_CAPTURE_STDOUT"


def test_flags_of_a_command_change_settings_that_were_read(project: Path) -> None:
    flags = {"queues": ("gpu",), "queue_limits": "gpu=3", "grace": None}
    settings = with_flags(read(project), flags)
    assert (settings.queues, settings.queue_limits, settings.grace) == (("gpu",), {"gpu": 3}, 5.0)
    assert settings.sources["queue_limits"] == "flag --queue-limit"
    for wrong in ("gpu", "gpu=0", "gpu=many", "=3", "a/b=3"):
        with pytest.raises(InvalidInput, match=r"flag --queue-limit: queue_limits cannot be .*; allowed is a table"):
            with_flags(settings, {"queue_limits": wrong})
    with pytest.raises(InvalidInput, match="flag --queue: queues cannot be"):
        with_flags(settings, {"queues": ("a/b",)})


# --- the store or a server

SHOP = """
store = "/data/runs.db"
[profiles.shop]
url = "https://shop.example.com/outlast/"
token = "secret"
"""


@pytest.mark.parametrize(
    ("given", "environment", "url"),
    [
        ({}, {}, ""),
        ({"url": "http://here:8470/"}, {}, "http://here:8470"),
        ({}, {"OUTLAST_URL": "http://here:8470"}, "http://here:8470"),
        ({"profile": "shop"}, {}, "https://shop.example.com/outlast"),
        ({}, {"OUTLAST_PROFILE": "shop"}, "https://shop.example.com/outlast"),
        ({"profile": "shop"}, {"OUTLAST_URL": "http://here:8470"}, "https://shop.example.com/outlast"),
        ({"store": "runs.db"}, {"OUTLAST_URL": "http://here:8470"}, ""),
        ({}, {"OUTLAST_URL": "http://here:8470", "OUTLAST_STORE": "runs.db"}, "http://here:8470"),
        ({"url": "http://here:8470"}, {"OUTLAST_STORE": "runs.db"}, "http://here:8470"),
    ],
)
def test_the_first_place_that_names_a_store_or_a_server_decides(
    project: Path, given: dict[str, str], environment: dict[str, str], url: str
) -> None:
    assert read(project, SHOP, flags=given, environment=environment).url == url


def test_a_store_and_a_server_on_one_command_line_are_refused(project: Path) -> None:
    with pytest.raises(InvalidInput, match="flag --server and flag --store exclude each other"):
        read(project, flags={"store": "runs.db", "url": "http://here:8470"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is no profile 'shop' in .*outlast.toml, there are none"),
        ('[profiles.other]\nurl = "http://x"', "there is no profile 'shop' in .*, there are other"),
        ('[profiles.shop]\nurl = "ftp://x"', "profiles.shop is not valid"),
        ('[profiles.shop]\nurl = "http://x"\ntokn = "s"', "profiles.shop is not valid: .*tokn"),
        ("profiles = 3", "profiles is not a table"),
    ],
)
def test_a_profile_that_is_missing_or_wrong_is_refused(project: Path, text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read(project, text, flags={"profile": "shop"})


def test_a_profile_has_the_token_of_its_server(project: Path) -> None:
    read(project, SHOP)
    assert read_profile("shop", project) == Profile(url="https://shop.example.com/outlast/", token="secret")


# --- what cannot be meant

BAD: dict[str, list[Any]] = {
    "url": ["here:8470", "ftp://here", "http://user:word@here", "http://here?x=1", 3],
    "profile": [3],
    "store": ["", "ftp://there/x", "sqlite:runs.db", 3],
    "blobs": [3],
    "apps": [3, [3], [""]],
    "claim": ["soon", 0, -1, float("nan"), float("inf"), True, 86_401],
    "concurrency": [0, 1.5, "many", True, 10**30],
    "threads": [0, -1, "8"],
    "processes": [-1, None.__class__],
    "durability": ["none", "FULL", 1],
    "on_restart": ["restart"],
    "unawaited": ["shout", True],
    "capture_stdout": ["yes", 1],
    "grace": ["a while", -1, float("nan"), True, 86_401],
    "dask": ["local:0", "locally", "127.0.0.1:8786", "tcp://", "tcp://a b", 3],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BAD.items() for value in values])
def test_what_cannot_be_meant_is_refused_with_its_place_and_what_is_allowed(
    key: str, value: Any, project: Path
) -> None:
    """G2"""
    with pytest.raises(InvalidInput) as refusal:
        read(project, given={key: value})
    assert str(refusal.value).startswith("argument: ")
    if key != "store" or value == 3:
        assert f"{key} cannot be" in str(refusal.value)
        assert ALLOWED[key] in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OUTLAST_CLAIM", "soon"),
        ("OUTLAST_THREADS", "1.5"),
        ("OUTLAST_CAPTURE_STDOUT", "maybe"),
        ("OUTLAST_CLAIM", "nan"),
    ],
)
def test_a_bad_variable_is_named(name: str, value: str, project: Path) -> None:
    with pytest.raises(InvalidInput, match=f"^environment {name}: .*{value}.*allowed is"):
        read(project, environment={name: value})


def test_a_bad_value_in_the_file_is_refused_even_where_a_nearer_place_has_another(project: Path) -> None:
    """G2"""
    with pytest.raises(
        InvalidInput, match=r"^file .*outlast\.toml: threads cannot be 'eight'; allowed is a whole number"
    ):
        read(project, 'threads = "eight"', given={"threads": 8})


def test_an_unknown_key_is_refused_with_the_nearest_known_one(project: Path) -> None:
    """G3"""
    with pytest.raises(
        InvalidInput, match=r"^file .*outlast\.toml: there is no setting 'concurency'; did you mean concurrency\?"
    ):
        read(project, "concurency = 5")
    with pytest.raises(InvalidInput, match="no setting 'on-restart'; did you mean on_restart"):
        read(project, 'on-restart = "hold"')
    with pytest.raises(InvalidInput, match="no setting 'frobnicate'; the settings are store, blobs"):
        read(project, "frobnicate = 5")
    with pytest.raises(InvalidInput, match=r"^argument: .*did you mean claim"):
        read(project, "", given={"claims": 5})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OUTLAST_STOR", "STORE"),
        ("OUTLAST_STROE", "STORE"),
        ("OUTLAST_APP", "APPS"),
        ("OUTLAST_THREAD", "THREADS"),
        ("OUTLAST_ONRESTART", "ON_RESTART"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_one_that_is_meant(name: str, meant: str, project: Path) -> None:
    """G3"""
    with pytest.raises(InvalidInput, match=rf"^environment {name}: .*did you mean OUTLAST_{meant}\?"):
        read(project, environment={name: "x"})


def test_variables_of_others_are_left_alone(project: Path) -> None:
    """G3: what a cluster sets for services called outlast and outlast-store."""
    names = ["PORT", "PORT_80_TCP", "SERVICE_HOST", "STORE_PORT", "STORE_SERVICE_HOST", "STORE_PORT_5432_TCP_ADDR"]
    settings = read(project, environment={f"OUTLAST_{name}": "x" for name in names})
    assert set(settings.sources.values()) == {"default"}


# --- paths


def test_paths_in_the_file_are_relative_to_the_project(project: Path) -> None:
    """G4"""
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    text = 'store = "data/runs.db"\nblobs = "data/large"'
    (project / "outlast.toml").write_text(text)
    settings = read(deep)
    assert settings.store == str(project / "data" / "runs.db")
    assert settings.blobs == str(project / "data" / "large")
    assert settings.root == project


def test_files_among_the_apps_are_relative_to_the_project_too(project: Path) -> None:
    """G4"""
    settings = read(project, 'apps = ["flows", "jobs/nightly.py", "jobs/hourly.py:tidy"]')
    assert settings.apps == ("flows", f"{project}/jobs/nightly.py", f"{project}/jobs/hourly.py:tidy")
    assert read(project, "", environment={"OUTLAST_APPS": "jobs.py"}).apps == ("jobs.py",)


@pytest.mark.parametrize(
    ("address", "store"),
    [("sqlite:///x.db", "{root}/x.db"), ("sqlite:////x.db", "/x.db"), ("/x.db", "/x.db"), ("memory:", "memory:")],
)
def test_addresses_in_the_file_may_be_of_any_kind(address: str, store: str, project: Path) -> None:
    assert read(project, f'store = "{address}"').store == store.format(root=project)


def test_a_tilde_in_the_file_is_the_home_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    settings = read(project, 'store = "~/runs.db"\nblobs = "~/large"')
    assert (settings.store, settings.blobs) == ("/home/ann/runs.db", "/home/ann/large")


def test_blobs_go_with_the_store_they_were_named_for(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G5: another store's blobs must not end up among them."""
    monkeypatch.chdir(project)
    text = 'store = "runs.db"\nblobs = "large"'
    large = str(project / "large")
    assert read(project, text).blobs == large
    other = read(project, text, flags={"store": "other.db"})
    assert other.blobs == ""
    assert other.sources["blobs"] == f"default (file {project / 'outlast.toml'} goes with another store)"
    for same in ("runs.db", "./runs.db", f"sqlite:///{project / 'runs.db'}"):
        assert read(project, text, environment={"OUTLAST_STORE": same}).blobs == large
    assert read(project, text, environment={"OUTLAST_BLOBS": "elsewhere"}).blobs == "elsewhere"
    assert read(project, text, given={"store": "other.db", "blobs": "elsewhere"}).blobs == "elsewhere"


# --- which project


def test_the_project_is_the_nearest_folder_that_is_set_up(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    assert project_root(deep) == deep
    (tmp_path / "outlast.toml").touch()
    assert project_root(deep) == tmp_path
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "outlast-user"\n')
    assert project_root(deep) == tmp_path
    (tmp_path / "a" / "b" / "pyproject.toml").write_text("[tool.outlast]\n")
    assert project_root(deep) == tmp_path / "a" / "b"


def test_without_a_file_the_project_is_the_nearest_folder_with_runs(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / ".outlast").mkdir()
    assert read_settings(start=inner, environment={}).root == inner, "a folder of that name without runs does not count"
    (tmp_path / "outer" / ".outlast" / "runs.db").touch()
    found = read_settings(start=inner, environment={})
    assert (found.root, found.store) == (tmp_path / "outer", str(tmp_path / "outer" / ".outlast" / "runs.db"))
    (tmp_path / "outlast.toml").touch()
    assert read_settings(start=inner, environment={}).root == tmp_path, "the project's file says where the project is"


def test_a_project_file_that_does_not_read_is_named_if_it_may_be_ours(tmp_path: Path) -> None:
    broken = tmp_path / "pyproject.toml"
    broken.write_text("[tool.outlast\n")
    with pytest.raises(InvalidInput, match=r"pyproject\.toml"):
        project_root(tmp_path)
    broken.write_text("[tool.other\n")
    assert project_root(tmp_path) == tmp_path


def test_the_settings_may_stand_in_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.outlast]\nthreads = 3\n")
    assert _threads(read(tmp_path)) == (3, f"file {tmp_path / 'pyproject.toml'}")
    (tmp_path / "outlast.toml").write_text("claim = 5\n")
    assert _threads(read(tmp_path)) == (32, "default")


@pytest.mark.parametrize("content", [b"threads = ", b"\xff\xfe", b"[a]\n[a]\n"])
def test_a_file_that_does_not_read_is_named(content: bytes, project: Path) -> None:
    (project / "outlast.toml").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"outlast\.toml is not valid TOML"):
        read(project)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool.outlast = 3\n")
    with pytest.raises(InvalidInput, match=r"tool\.outlast is not a table"):
        read(tmp_path)


def test_a_folder_called_like_the_file_is_no_project(tmp_path: Path) -> None:
    (tmp_path / "outlast.toml").mkdir()
    assert read(tmp_path).root == tmp_path


def test_without_a_file_nothing_is_imported_to_read_one(tmp_path: Path) -> None:
    code = """
import sys, outlast.settings
outlast.settings.read_settings()
print(*[name for name in ("tomllib", "difflib", "apsw", "typer") if name in sys.modules])"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30
    )
    assert (ran.stdout.strip(), ran.stderr) == ("", "")
