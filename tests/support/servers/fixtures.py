"""pytest fixtures: one real server for a whole session, and an empty store on it for every test.

from support.servers.fixtures import postgres, postgres_url  # in conftest.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pytest

from support.servers.postgres import GIVEN, PostgresServer, postgres_server

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
def postgres_url(_any_postgres: str) -> str:
    """The address of a store that does not exist yet, in a schema of this test."""
    mark = "&" if "?" in _any_postgres else "?"
    return f"{_any_postgres}{mark}schema=test_{os.getpid()}_{next(_schemas)}"
