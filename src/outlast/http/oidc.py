"""Sign-in with an OpenID Connect provider: discovery, and the authorization code flow with PKCE.

The browser that begins a sign-in gets a cookie; only it can finish it. What is under way is a document of the store, so that
any server of the store may finish it. The session remembers the claims that decide its role: a role follows from them at
every request, by the mapping that the server has then.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import httpx
import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from outlast.errors import InvalidInput, OutlastError
from outlast.http.audit import AuditEntry
from outlast.http.auth import COOKIE, OIDC_FOLDER, SESSION_S, Auth, OidcOptions, principal_of
from outlast.http.problems import HttpError, response_of
from outlast.store import Document, Store

if TYPE_CHECKING:
    from outlast.http.state import ServerState

log = logging.getLogger("outlast.http")

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures that are accepted. Neither `none` nor an algorithm with a shared secret is among them."""
FLOW_S = 600.0
LEEWAY_S = 60
KEPT_S = 3600.0
"""How long the provider's discovery document and keys are used before they are read again."""
RENEW_S = 60.0
"""An unknown key has the keys read again, at most this often."""
FLOW_COOKIE = "outlast_oidc"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Provider(Struct):
    """What the discovery document says."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


class Flow(Struct, frozen=True):
    """A sign-in under way. `browser` is the hash of the cookie of the browser that began it."""

    browser: str
    nonce: str
    verifier: str
    redirect: str
    expires: float


class Oidc:
    """The client of one provider."""

    def __init__(self, options: OidcOptions, http: httpx.AsyncClient | None = None) -> None:
        if not _is_safe(options.issuer):
            raise InvalidInput(f"the OIDC issuer {options.issuer!r} is not an https address")
        if not options.roles:
            raise InvalidInput("name at least one role for sign-in with OIDC: --oidc-role VALUE=ROLE")
        self.options = options
        self._http = http or httpx.AsyncClient(timeout=10, follow_redirects=False)
        self._provider: tuple[float, Provider] | None = None
        self._keys: tuple[float, KeySet] | None = None

    async def close(self) -> None:
        await self._http.aclose()

    # --- the flow

    async def begin(self, store: Store, redirect: str) -> tuple[str, str]:
        """The address of the provider that the browser goes to, and the cookie that it brings back."""
        provider = await self._discovered()
        state, cookie, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        flow = Flow(_hash(cookie), nonce, verifier, redirect, time.time() + FLOW_S)
        await store.put_document(Document(_name(state), secrets.token_hex(16), msgspec.json.encode(flow)))
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.options.client,
            "redirect_uri": redirect,
            "scope": self.options.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        mark = "&" if urlsplit(provider.authorization_endpoint).query else "?"
        return f"{provider.authorization_endpoint}{mark}{urlencode(query)}", cookie

    async def finish(self, auth: Auth, store: Store, state: str, code: str, cookie: str) -> tuple[str, tuple[str, ...]]:
        """Who signed in, and the claims that decide the role. The flow is spent by this."""
        document = await store.document(_name(state)) if state else None
        flow = msgspec.json.decode(document.body, type=Flow) if document is not None else None
        is_known = flow is not None and flow.expires > time.time() and hmac.compare_digest(flow.browser, _hash(cookie))
        if document is None or flow is None or not is_known or not await auth.spend(document):
            raise _refused("this sign-in was not begun by this browser, is over or took too long: begin again")
        claims = await self._claims(await self._id_token(code, flow), flow.nonce)
        found = claims.get(self.options.claim, ())
        values = tuple(str(each) for each in (found if isinstance(found, list | tuple) else [found]))
        kept = tuple(each for each in values if each in self.options.roles)
        if auth.role_of(kept) is None:
            raise HttpError("http.forbidden", f"the claim {self.options.claim!r} of this account gives no role here")
        name = next(str(claims[key]) for key in ("preferred_username", "email", "sub") if claims.get(key))
        return name, kept

    async def _id_token(self, code: str, flow: Flow) -> str:
        provider, options = await self._discovered(), self.options
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": flow.redirect,
            "client_id": options.client,
            "code_verifier": flow.verifier,
        }
        secret = (options.client, options.secret) if options.secret else None
        answer = await self._asked("POST", provider.token_endpoint, data=form, auth=secret)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise _refused("the provider sent no ID token")
        return token

    async def _claims(self, token: str, nonce: str) -> Mapping[str, Any]:
        """The claims of an ID token whose signature, issuer, audience, times and nonce are right."""
        provider = await self._discovered()
        try:
            claims = jwt.decode(token, await self._key_set(provider), algorithms=ALGORITHMS).claims
        except (JoseError, ValueError):  # it may be signed with a key that is newer than those that are kept
            try:
                claims = jwt.decode(token, await self._key_set(provider, RENEW_S), algorithms=ALGORITHMS).claims
            except (JoseError, ValueError) as error:
                raise _refused(f"the ID token is not valid: {type(error).__name__}") from error
        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": provider.issuer},
            aud={"essential": True, "value": self.options.client},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            registry.validate(claims)
        except JoseError as error:
            raise _refused(f"the ID token is not valid: {error}") from error
        audience = claims["aud"]
        if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != self.options.client:
            raise _refused("the ID token was made for another client")
        return claims

    # --- the provider

    async def _discovered(self) -> Provider:
        now = time.monotonic()
        if self._provider is None or now - self._provider[0] > KEPT_S:
            issuer = self.options.issuer
            answer = await self._asked("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            try:
                provider = msgspec.convert(answer, Provider)
            except msgspec.ValidationError as error:
                raise _unreachable(f"its discovery document is incomplete: {error}") from error
            if provider.issuer != issuer:
                raise _unreachable(f"its discovery document names another issuer, {provider.issuer[:200]!r}")
            if not all(map(_is_safe, (provider.authorization_endpoint, provider.token_endpoint, provider.jwks_uri))):
                raise _unreachable("its discovery document names an address without TLS")
            self._provider = now, provider
        return self._provider[1]

    async def _key_set(self, provider: Provider, kept_s: float = KEPT_S) -> KeySet:
        now = time.monotonic()
        if self._keys is None or now - self._keys[0] >= kept_s:
            answer: Any = await self._asked("GET", provider.jwks_uri)
            try:
                keys = KeySet.import_key_set(answer)
            except (JoseError, KeyError, TypeError, ValueError) as error:
                raise _unreachable("its keys cannot be read") from error
            self._keys = now, keys
        return self._keys[1]

    async def _asked(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        try:
            response = await self._http.request(method, url, headers={"Accept": "application/json"}, **more)
            if response.is_success:
                answer = response.json()
                if isinstance(answer, dict):
                    return answer
        except (httpx.HTTPError, ValueError) as error:
            raise _unreachable(f"{type(error).__name__}") from error
        if method == "POST" and response.status_code in (400, 401):
            raise _refused("the provider refused the code of this sign-in")
        raise _unreachable(f"{urlsplit(url).path} answered {response.status_code}")


# --- routes


def routes(oidc: Oidc) -> list[Route]:
    async def login(request: Request) -> Response:
        state: ServerState = request.app.state.outlast
        try:
            _limit(state, request)
            url, cookie = await oidc.begin(state.store, _here(request, "oidc/callback"))
        except (HttpError, OutlastError) as error:
            return response_of(error)
        response = RedirectResponse(url, 303)
        response.headers["Set-Cookie"] = _flow_cookie(request, cookie, FLOW_S)
        return response

    async def callback(request: Request) -> Response:
        state: ServerState = request.app.state.outlast
        who, status = "", 403
        given = request.query_params
        try:
            _limit(state, request)
            if error := given.get("error"):
                raise _refused(f"the provider refused the sign-in: {re.sub('[^a-z_]', '', error)[:60]}")
            cookie = request.cookies.get(FLOW_COOKIE, "")
            name, claims = await oidc.finish(
                state.auth, state.store, given.get("state", ""), given.get("code", ""), cookie
            )
            role = state.auth.role_of(claims) or "viewer"
            by = f"oidc {oidc.options.issuer}"[:200]
            text, made = await state.auth.create(
                "session", _readable(name), role, expires_s=SESSION_S, by=by, claims=claims
            )
            who, status = principal_of("session", made).by, 201
            response = Response(_ARRIVED, media_type="text/html")
            response.headers.append("Set-Cookie", f"{COOKIE}={text}; {_attributes(request, 'Strict', SESSION_S)}")
        except (HttpError, OutlastError) as error:
            response = response_of(error)
            status = response.status_code
        response.headers.append("Set-Cookie", _flow_cookie(request, "", 0))
        client = request.client.host if request.client is not None else ""
        entry = AuditEntry(
            time=time.time_ns() // 1000, by=who, role="", address=client, action="sign_in_oidc", status=status
        )
        await state.audit.record(entry, is_known=bool(who))
        return response

    return [Route("/oidc/login", login, methods=["GET"]), Route("/oidc/callback", callback, methods=["GET"])]


_ARRIVED = (
    b'<!doctype html><meta http-equiv="refresh" content="0; url=../"><title>Outlast</title><a href="../">Continue</a>'
)
"""The page that follows a sign-in. A redirect would come from the provider's site, without the session's cookie."""


def _limit(state: ServerState, request: Request) -> None:
    if state.limit is not None:
        state.limit.check(request, None)


def _here(request: Request, path: str) -> str:
    root = request.scope.get("root_path", "").rstrip("/")
    return f"{request.url.scheme}://{request.headers.get('host', '')}{root}/{path}"


def _flow_cookie(request: Request, value: str, seconds: float) -> str:
    return f"{FLOW_COOKIE}={value}; {_attributes(request, 'Lax', seconds)}"


def _attributes(request: Request, same_site: str, seconds: float) -> str:
    secure = "; Secure" if request.url.scheme == "https" else ""
    path = request.scope.get("root_path") or "/"
    return f"HttpOnly; SameSite={same_site}; Path={path}; Max-Age={int(seconds)}{secure}"


def _readable(name: str) -> str:
    """A name of a provider as a name here."""
    text = re.sub(r"[^A-Za-z0-9 ._@-]", "_", name)[:100]
    return text if text[:1].isalnum() else f"u{text}"[:100]


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _name(state: str) -> str:
    return OIDC_FOLDER + _hash(state)


def _refused(detail: str) -> HttpError:
    return HttpError("http.unauthenticated", detail)


def _unreachable(detail: str) -> HttpError:
    log.warning("sign-in with OIDC failed: %s", detail)
    return HttpError("http.unavailable", f"the provider cannot be used: {detail}", headers={"Retry-After": "10"})
