"""pytest fixtures: one real server for a whole session, and an empty store on it for every test.

from support.servers.fixtures import postgres, postgres_url  # in conftest.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import count

import pytest

from support.servers.postgres import GIVEN, PostgresServer, postgres_server
from support.servers.postgres_admin import empty_store

_schemas = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that may be restarted; each worker of pytest-xdist has its own."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def _any_postgres(request: pytest.FixtureRequest) -> str:
    given = os.environ.get(GIVEN)
    if given:
        return given
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url


@pytest.fixture
def empty_postgres_url(_any_postgres: str) -> str:
    """The address of an empty store, in a schema that this process uses again and again: making one takes longer than most
    tests."""
    url = f"{_any_postgres}{_mark(_any_postgres)}schema=test_{os.getpid()}_again"
    asyncio.run(empty_store(url))
    return url


@pytest.fixture
def postgres_url(_any_postgres: str) -> str:
    """The address of a store that does not exist yet, in a schema of this test."""
    return f"{_any_postgres}{_mark(_any_postgres)}schema=test_{os.getpid()}_{next(_schemas)}"


def _mark(url: str) -> str:
    return "&" if "?" in url else "?"
