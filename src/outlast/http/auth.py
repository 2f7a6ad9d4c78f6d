"""Who sends a request: tokens, sessions and one-time sign-in codes, kept as documents of the store.

A secret is 256 random bits; the store holds its SHA-256 and never the secret. A credential is looked up by the public part
of its text and compared in constant time. Checks are cached for `CACHE_S`, so that a revoked token ends within that time on
every server.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import InvalidInput, NotFound, OutlastError
from outlast.http.permissions import GRANTED, ROLES, Permission, Role
from outlast.http.problems import HttpError, unavailable
from outlast.store import Document, Store

CACHE_S = 5.0
CACHED = 10_000
LAST_USE_S = 60.0
"""How often the time of last use is written."""
SESSION_S = 12 * 3600.0
SIGN_IN_S = 600.0
COOKIE = "outlast_session"
OIDC_FOLDER = "http/oidc/"
"""Sign-ins with a provider that are under way."""
Kind: TypeAlias = Literal["token", "session", "sign-in"]
_PREFIXES: dict[Kind, str] = {"token": "olt", "session": "ols", "sign-in": "oli"}
_TEXT = re.compile(r"(olt|ols|oli)_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}")


class Credential(Struct, frozen=True, kw_only=True):
    """What the store knows of a token, a session or a sign-in code. Times are seconds since 1970."""

    id: str
    hash: str
    name: str
    role: Role
    created: float
    expires: float | None = None
    used: float | None = None
    by: str = ""
    claims: tuple[str, ...] = ()
    """The claims of a provider that decide the role at each request, by the mapping that the server has then."""


class OidcOptions(Struct, frozen=True, kw_only=True):
    """The provider and this client of it. `claim` of the ID token holds names, which `roles` maps to roles."""

    issuer: str
    client: str
    secret: str = ""
    claim: str = "groups"
    roles: dict[str, Role] = {}
    scope: str = "openid profile email"


class Principal(Struct, frozen=True):
    """Who sends a request. `by` is what the log records."""

    by: str
    role: Role
    kind: Literal["token", "session", "local"]
    id: str = ""
    expires: float | None = None

    def may(self, permission: Permission) -> bool:
        return permission in GRANTED[self.role]


LOCAL = Principal("local", "admin", "local")
"""Anyone on this machine, with `--insecure-local`."""


class _Expiring(Struct):
    expires: float | None = None


def folder_of(kind: Kind) -> str:
    return f"http/{kind}s/"


class Auth:
    """Checks and keeps the credentials of a server."""

    def __init__(self, store: Store | None = None, *, insecure_local: bool = False) -> None:
        self.store = store
        self.insecure_local = insecure_local
        self.oidc_roles: Mapping[str, Role] = {}
        self._cache: dict[str, tuple[float, Principal | None]] = {}
        self._noted: dict[str, float] = {}

    # --- checking

    async def principal(self, header: str | None, cookie: str | None) -> Principal | None:
        """The sender of a request with this Authorization header and this session cookie; None if there is no valid one."""
        if header is not None:
            scheme, _, text = header.partition(" ")
            return await self._checked("token", text.strip()) if scheme.lower() == "bearer" else None
        if cookie is not None and (found := await self._checked("session", cookie)) is not None:
            return found
        return LOCAL if self.insecure_local else None

    async def is_valid(self, principal: Principal) -> bool:
        """Whether a sender that was valid still is, with the same role: streams ask this while they are open."""
        if principal.kind == "local":
            return self.insecure_local
        key = f"{principal.kind}:{principal.id}"
        now = time.monotonic()
        known = self._cache.get(key)
        if known is None or now - known[0] >= CACHE_S:
            found = await self._read(principal.kind, principal.id)
            known = (now, principal_of(principal.kind, found) if found is not None and not _is_expired(found) else None)
            self._remember(key, known)
        return known[1] == principal

    async def _checked(self, kind: Literal["token", "session"], text: str) -> Principal | None:
        match = _TEXT.fullmatch(text)
        if match is None or match[1] != _PREFIXES[kind]:
            return None
        key, now = digest(text), time.monotonic()
        known = self._cache.get(key)
        if known is not None and now - known[0] < CACHE_S:
            principal = known[1]
            is_over = principal is not None and principal.expires is not None and principal.expires <= time.time()
            return None if is_over else principal
        found = await self._read(kind, match[2])
        is_valid = found is not None and hmac.compare_digest(found.hash, key) and not _is_expired(found)
        principal = principal_of(kind, found) if found is not None and is_valid else None
        self._remember(key, (now, principal))
        if principal is not None:
            await self._note_use(kind, match[2])
        return principal

    def _remember(self, key: str, known: tuple[float, Principal | None]) -> None:
        if len(self._cache) >= CACHED:
            self._cache.clear()
        self._cache[key] = known

    async def _note_use(self, kind: Kind, id: str) -> None:
        now = time.monotonic()
        if now - self._noted.get(id, -LAST_USE_S) < LAST_USE_S:
            return
        if len(self._noted) >= CACHED:
            self._noted.clear()
        self._noted[id] = now
        with suppress(OutlastError):  # a request does not fail because this could not be written
            document = await self._store.document(folder_of(kind) + id)
            if document is not None:
                changed = replace(_read(document), used=time.time())
                await self._store.put_document(_document(kind, changed), replaces=document.version)

    # --- credentials

    async def create(
        self,
        kind: Kind,
        name: str,
        role: Role,
        *,
        expires_s: float | None = None,
        by: str = "",
        claims: tuple[str, ...] = (),
    ) -> tuple[str, Credential]:
        """A new credential and its text, which is shown once and not stored."""
        if not NAME.fullmatch(name):
            raise InvalidInput("name: use 1 to 100 letters, digits, blanks and any of . _ @ - beginning with a letter")
        id, now = secrets.token_hex(8), time.time()
        text = f"{_PREFIXES[kind]}_{id}_{secrets.token_urlsafe(32)}"
        expires = now + expires_s if expires_s is not None else None
        made = Credential(
            id=id, hash=digest(text), name=name, role=role, created=now, expires=expires, by=by, claims=claims
        )
        if not await self._store.put_document(_document(kind, made)):
            raise InvalidInput("the id of the new credential is taken: try again")
        return text, made

    async def list(self, kind: Kind) -> list[Credential]:
        found: list[Credential] = []
        after = ""
        while True:
            page = await self._store.documents(folder_of(kind), after=after, limit=1000)
            found += [_read(each) for each in page]
            if len(page) < 1000:
                return sorted(found, key=lambda each: each.created)
            after = page[-1].name

    async def revoke(self, kind: Kind, id: str) -> None:
        """Remove a credential; `NotFound` if there is none of that id."""
        while True:
            document = await self._store.document(folder_of(kind) + id) if re.fullmatch("[0-9a-f]{16}", id) else None
            if document is None:
                raise NotFound(f"there is no {kind} {id[:40]!r}")
            if await self._store.remove_document(document.name, document.version):
                self._cache.clear()
                return

    async def sign_in(self, code: str) -> tuple[str, Credential]:
        """A session for a sign-in code, which is spent by this."""
        match = _TEXT.fullmatch(code)
        name = folder_of("sign-in") + match[2] if match is not None and match[1] == "oli" else ""
        document = await self._store.document(name) if name else None
        found = _read(document) if document is not None else None
        is_valid = found is not None and hmac.compare_digest(found.hash, digest(code)) and not _is_expired(found)
        if document is None or found is None or not is_valid or not await self.spend(document):
            raise HttpError("http.unauthenticated", "this sign-in code is unknown, expired or already used")
        return await self.create("session", found.name, found.role, expires_s=SESSION_S, by=f"sign-in {found.id}")

    async def spend(self, document: Document) -> bool:
        """Remove a document that counts once; false if another request did so before. Its marker decides between two."""
        spent = Document(document.name, secrets.token_hex(16), document.body)
        if not await self._store.put_document(spent, replaces=document.version):
            return False
        return await self._store.remove_document(spent.name, spent.version)

    async def sweep(self) -> None:
        """Remove what has expired."""
        for folder in (folder_of("session"), folder_of("sign-in"), OIDC_FOLDER):
            for document in await self._store.documents(folder, limit=1000):
                expires = msgspec.json.decode(document.body, type=_Expiring).expires
                if expires is not None and expires <= time.time():
                    await self._store.remove_document(document.name, document.version)

    async def _read(self, kind: Kind, id: str) -> Credential | None:
        document = await self._store.document(folder_of(kind) + id)
        found = _read(document) if document is not None else None
        if found is None or not found.claims:
            return found
        role = self.role_of(found.claims)
        return replace(found, role=role) if role is not None else None

    def role_of(self, claims: Iterable[str]) -> Role | None:
        """The greatest role that these claims of a provider give."""
        roles = {self.oidc_roles[each] for each in claims if each in self.oidc_roles}
        return max(roles, key=ROLES.index, default=None)

    @property
    def _store(self) -> Store:
        if self.store is None:
            raise unavailable("the server is starting: its store is not open yet")
        return self.store


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def principal_of(kind: Literal["token", "session"], found: Credential) -> Principal:
    return Principal(f"{found.name} ({kind} {found.id})", found.role, kind, found.id, found.expires)


def _is_expired(credential: Credential) -> bool:
    return credential.expires is not None and credential.expires <= time.time()


def _document(kind: Kind, credential: Credential) -> Document:
    return Document(folder_of(kind) + credential.id, secrets.token_hex(16), msgspec.json.encode(credential))


def _read(document: Document) -> Credential:
    return msgspec.json.decode(document.body, type=Credential)
