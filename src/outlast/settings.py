"""Settings: where the runs are stored, how much is done at once, and where each value comes from.

A setting is searched in five places, and the first that has it wins: an argument in Python, a flag of the command line, an
environment variable (`OUTLAST_STORE`), the project's file (`outlast.toml`, or `[tool.outlast]` in a `pyproject.toml`), the
default. The project is the nearest folder upward with such a file; if it has both, `outlast.toml` counts. Without a file,
it is the nearest folder upward that holds the default store, else the current folder.

G1  Every value has a source: the place it comes from.
G2  An invalid value is refused and never replaced by a default, even if another place overrides it. The error names the
    place, the setting and the allowed values.
G3  An unknown name is refused with the most similar known name. Environment variables that resemble no setting are ignored:
    a cluster sets OUTLAST_PORT and the like for a service called outlast.
G4  Paths in the project's file are relative to the project, whatever the current folder is.
G5  Blobs belong to the store they were configured with: a store that overrides it keeps its own blobs beside it.
G6  Commands use the store or a server, whichever the first place with either names. `url` is the server's address, or the
    address in the profile; it is empty if commands use the store. Only the command line and `connect` read it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from outlast.address import DEFAULT, KINDS, file_at, place_of
from outlast.errors import InvalidInput

__all__ = [
    "KEYS",
    "Durability",
    "OnRestart",
    "Profile",
    "Settings",
    "project_root",
    "read_profile",
    "read_settings",
    "with_flags",
]

PREFIX = "OUTLAST_"
OWN_FILE = "outlast.toml"
SHARED_FILE = "pyproject.toml"
RESEMBLES = 0.75
"""How similar, from 0 to 1, an unknown name has to be to a setting to be reported."""

Durability: TypeAlias = Literal["full", "relaxed"]
OnRestart: TypeAlias = Literal["resume", "hold"]


_QUEUE = r"^([^\W\d][\w.-]{0,99})?$"


class Settings(Struct, frozen=True):
    """The settings of a process. `blobs` is empty if the blobs are beside the store; 0 `processes` means one for each
    core. `claim` is how many seconds a worker's claim lasts, `concurrency` how many runs one process advances at once,
    `grace` how many seconds nodes have to reach a checkpoint or their end when their run is paused. `queues` are those
    whose runs a worker executes, all if it is empty; an empty name stands for the runs without a queue. `queue_limits` are
    how many runs of a queue may be executed at once, by all workers together. `unawaited` is the effect of calls that a
    run never awaited. `dask` is the address of the cluster for nodes with `run_in="dask"`. `url` is the address of the
    server that commands use instead of the store, `profile` the table with its address and token."""

    store: str
    blobs: str = ""
    apps: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    claim: Annotated[float, Meta(gt=0, le=86_400)] = 30.0
    concurrency: Annotated[int, Meta(ge=1, le=1_000_000)] = 2000
    threads: Annotated[int, Meta(ge=1, le=10_000)] = 32
    processes: Annotated[int, Meta(ge=0, le=10_000)] = 0
    durability: Durability = "full"
    on_restart: OnRestart = "resume"
    unawaited: Literal["fail", "warn"] = "fail"
    capture_stdout: bool = False
    grace: Annotated[float, Meta(ge=0, le=86_400)] = 5.0
    queues: tuple[Annotated[str, Meta(pattern=_QUEUE)], ...] = ()
    queue_limits: dict[
        Annotated[str, Meta(pattern=_QUEUE, min_length=1)], Annotated[int, Meta(ge=1, le=1_000_000)]
    ] = {}
    dask: Annotated[str, Meta(pattern=r"^(local(:[1-9][0-9]{0,3})?|[a-z]+://[^\s/]+)?$")] = ""
    url: Annotated[str, Meta(pattern=r"^(https?://[^\s/?#@]+(/[^\s?#]*)?)?$")] = ""
    profile: str = ""
    root: Path = Path()
    sources: Mapping[str, str] = {}


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """A server, named in the project's file: `[profiles.NAME]`."""

    url: Annotated[str, Meta(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")]
    token: str = ""


ALLOWED = {
    "store": KINDS,
    "blobs": "the path of a folder",
    "apps": "modules or .py files that hold workflows: a list, or one text with commas between them",
    "claim": "a number of seconds above 0, at most 86400",
    "concurrency": "a whole number from 1 to 1000000",
    "threads": "a whole number from 1 to 10000",
    "processes": "a whole number from 0 (one for each core) to 10000",
    "durability": "full or relaxed",
    "on_restart": "resume or hold",
    "unawaited": "fail or warn",
    "capture_stdout": "true or false",
    "grace": "a number of seconds from 0 to 86400",
    "queues": "names of queues: a list, or one text with commas between them",
    "queue_limits": "a table of whole numbers from 1 to 1000000 by the name of the queue, or a text such as gpu=3,mail=10",
    "dask": "the address of a scheduler such as tcp://host:8786, or local, or local:2 for two workers here",
    "url": "the address of a server, such as https://outlast.example.com",
    "profile": "the name of a table below [profiles] in the file of the project",
}
KEYS = tuple(ALLOWED)
PROFILES = "profiles"
_FLAGS = {"url": "server", "queues": "queue", "queue_limits": "queue-limit"}
"""Flags with another name than their setting."""
_DEFAULTS = Settings(store="")
_FIELDS = {field.name: field for field in msgspec.structs.fields(Settings) if field.name in ALLOWED}


class _Place(NamedTuple):
    """One of the places: its name for a setting, and its values."""

    name: Callable[[str], str]
    values: Mapping[str, Any]


class _Project(NamedTuple):
    root: Path
    file: Path | None = None
    table: Mapping[str, Any] = {}
    profiles: Mapping[str, Any] = {}

    @classmethod
    def of(cls, root: Path, file: Path, table: Mapping[str, Any]) -> _Project:
        profiles = table.get(PROFILES, {})
        if not isinstance(profiles, dict):
            raise InvalidInput(f"file {file}: {PROFILES} is not a table: write [{PROFILES}.NAME] and the url below it")
        return cls(root, file, {key: value for key, value in table.items() if key != PROFILES}, profiles)


def read_settings(
    given: Mapping[str, Any] | None = None,
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    start: Path | None = None,
) -> Settings:
    """The settings of a process that starts in the folder `start` (by default the current one) with these arguments and
    `flags`; in both, None means not given (G1 to G5)."""
    project = _project(start if start is not None else _here())
    defaults = {"store": str(project.root / DEFAULT)} | {key: getattr(_DEFAULTS, key) for key in KEYS[1:]}
    places = [
        _proved(lambda _: "argument", given or {}),
        _proved(_flag, flags or {}),
        _environment(os.environ if environment is None else environment),
        _proved(lambda _: f"file {project.file}", project.table, root=project.root),
        _Place(lambda _: "default", defaults),
    ]
    chosen = {key: next(place for place in places if key in place.values) for key in KEYS}
    values = {key: place.values[key] for key, place in chosen.items()}
    sources = {key: place.name(key) for key, place in chosen.items()}
    if values["blobs"] and place_of(values["store"]) != place_of(_store_named_with("blobs", places)):
        values["blobs"], sources["blobs"] = "", f"default ({sources['blobs']} goes with another store)"
    values["url"], sources["url"] = _server(places, project)
    return Settings(**values, root=project.root, sources=sources)


def with_flags(settings: Settings, flags: Mapping[str, Any]) -> Settings:
    """The settings with these flags of a command; None means not given."""
    place = _proved(_flag, flags)
    sources = {**settings.sources, **{key: place.name(key) for key in place.values}}
    return msgspec.structs.replace(settings, **place.values, sources=sources)


def _flag(key: str) -> str:
    return f"flag --{_FLAGS.get(key, key).replace('_', '-')}"


def _server(places: list[_Place], project: _Project) -> tuple[str, str]:
    """The address of the server that commands use, and where it comes from; empty if they use the store (G6)."""
    for place in places[:-1]:
        named = [key for key in ("url", "profile", "store") if place.values.get(key)]
        if len(named) > 1 and place.name("store").startswith("flag"):
            raise InvalidInput(f"{' and '.join(map(place.name, named))} exclude each other: give one of them")
        if "url" in named:
            return place.values["url"].rstrip("/"), place.name("url")
        if "profile" in named:
            name = place.values["profile"]
            return _profile(project, name, place.name("profile")).url.rstrip("/"), f"profile {name}"
        if "store" in named:
            break
    return "", "default"


def read_profile(name: str, start: Path | None = None) -> Profile:
    """A profile of the project that the folder `start` belongs to."""
    return _profile(_project(start if start is not None else _here()), name, "profile")


def _profile(project: _Project, name: str, source: str) -> Profile:
    if name not in project.profiles:
        known = f"there are {', '.join(sorted(project.profiles))}" if project.profiles else "there are none"
        raise InvalidInput(
            f"{source}: there is no profile {name!r} in {project.file or OWN_FILE}, {known}: write [{PROFILES}.{name}] "
            "and the url below it"
        )
    try:
        return msgspec.convert(project.profiles[name], Profile)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"file {project.file}: {PROFILES}.{name} is not valid: {error}") from None


def _store_named_with(key: str, places: list[_Place]) -> str:
    """The store that is in effect at the place that sets `key`."""
    theirs = next(at for at, place in enumerate(places) if key in place.values)
    store: str = next(place.values["store"] for place in places[theirs:] if "store" in place.values)
    return store


# --- the places


def _proved(
    name: Callable[[str], str], given: Mapping[str, Any], *, root: Path | None = None, is_text: bool = False
) -> _Place:
    """The values of a place, checked and converted; with `root`, paths are relative to it."""
    for key in given:
        if key not in ALLOWED:
            raise InvalidInput(f"{name(key)}: there is no setting {key!r}{_meant(key)}")
    proved = {key: _value(name(key), key, value, is_text) for key, value in given.items() if value is not None}
    if root is not None:
        proved |= {key: _below(root, key, proved[key]) for key in ("store", "blobs", "apps") if proved.get(key)}
    return _Place(name, proved)


def _value(source: str, key: str, value: Any, is_text: bool) -> Any:
    typed = str(value) if isinstance(value, Path) else value
    if key in ("apps", "queues") and isinstance(value, str):
        typed = [name.strip() for name in value.split(",") if name.strip()]
    if key == "queue_limits" and isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
        typed, is_text = {name.strip(): limit.strip() for name, _, limit in pairs}, True
    try:
        typed = msgspec.convert(typed, _FIELDS[key].type, strict=not is_text)
        if key == "store":
            file_at(typed)
    except msgspec.ValidationError:
        raise InvalidInput(f"{source}: {key} cannot be {repr(value)[:80]}; allowed is {ALLOWED[key]}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from None
    return typed


def _below(root: Path, key: str, value: Any) -> Any:
    if key == "apps":  # `jobs.py`, `jobs.py:nightly`; a module has no path
        return tuple(str(root / app) if app.partition(":")[0].endswith(".py") else app for app in value)
    path = file_at(value) if key == "store" else Path(os.path.expanduser(value))
    return value if path is None else str(root / path)


def _environment(variables: Mapping[str, str]) -> _Place:
    """An empty variable counts as not set."""
    known = {PREFIX + key.upper(): key for key in KEYS}
    for name in variables:
        if name.startswith(PREFIX) and name not in known and (meant := _nearest(name.removeprefix(PREFIX))):
            raise InvalidInput(f"environment {name}: there is no such setting; did you mean {PREFIX}{meant.upper()}?")
    given = {key: variables[name] for name, key in known.items() if variables.get(name)}
    return _proved(lambda key: f"environment {PREFIX}{key.upper()}", given, is_text=True)


def _meant(name: str) -> str:
    meant = _nearest(name)
    return f"; did you mean {meant}?" if meant else f"; the settings are {', '.join(KEYS)}"


def _nearest(name: str) -> str:
    """The most similar setting; empty if none is similar."""
    import difflib

    return next(iter(difflib.get_close_matches(name.lower().replace("-", "_"), KEYS, 1, RESEMBLES)), "")


# --- which project


def project_root(start: Path) -> Path:
    """The nearest folder upward from `start` that is configured for Outlast, else `start`."""
    return _project(start).root


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise InvalidInput(f"the current folder does not exist: {error}; change to another folder") from error


def _project(start: Path) -> _Project:
    start = start.absolute()
    for folder in (start, *start.parents):
        if os.path.isfile(own := folder / OWN_FILE):
            return _Project.of(folder, own, _toml(own, _read(own)))
        if os.path.isfile(shared := folder / SHARED_FILE) and (table := _ours_in(shared)) is not None:
            return _Project.of(folder, shared, table)
    holders = (folder for folder in (start, *start.parents) if os.path.isfile(folder / DEFAULT))
    return _Project(next(holders, start))


_TOOLS = (b"tool.outlast", b"[tool]", b"tool={")
"""How a table of Outlast begins in a `pyproject.toml`, ignoring blanks and quotes. Searching for that is much faster than
parsing.
"""


def _ours_in(shared: Path) -> Mapping[str, Any] | None:
    """The table of Outlast in a `pyproject.toml`. A file that has none need not even be valid."""
    try:
        content = shared.read_bytes()
    except OSError:
        return None
    plain = content.translate(None, b" \t\"'")
    if b"outlast" not in plain or not any(begin in plain for begin in _TOOLS):
        return None
    tools = _toml(shared, content).get("tool", {})
    if "outlast" not in tools:
        return None
    if not isinstance(tools["outlast"], dict):
        raise InvalidInput(
            f"file {shared}: tool.outlast is not a table: write [tool.outlast] and the settings below it"
        )
    return tools["outlast"]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"file {file} cannot be read: {error}") from error


def _toml(file: Path, content: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except ValueError as error:
        raise InvalidInput(f"file {file} is not valid TOML: {error}") from error
