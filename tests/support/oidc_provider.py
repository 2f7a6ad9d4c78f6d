"""An OpenID Connect provider that signs everybody in, and lies if it is told to."""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey


class OidcProvider:
    """`claims` replace those of ID tokens, None removes one; `document` replaces parts of the discovery document."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.document: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.key = RSAKey.generate_key(2048, {"kid": "first"})
        self.signs_with: Any = None
        self.asked: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith("/jwks"):
                    self.reply({"keys": [provider.key.as_dict(private=False)]})
                else:
                    ends = ("authorization", "token")
                    found = {f"{end}_endpoint": f"{provider.url}/{end}" for end in ends}
                    self.reply(
                        {"issuer": provider.url, "jwks_uri": f"{provider.url}/jwks", **found, **provider.document}
                    )

            def do_POST(self) -> None:
                body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                form = {name: values[0] for name, values in body.items()}
                begun = provider.asked.pop(form["code"], None)
                if begun is None or challenge(form["code_verifier"]) != begun["code_challenge"]:
                    self.reply({"error": "invalid_grant"}, 400)
                else:
                    self.reply({"id_token": provider.id_token(begun), "access_token": "x"})

            def reply(self, content: Any, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def approve(self, address: str) -> tuple[str, str]:
        """What a person does there: the code and the state that the browser brings back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        code = f"code-{len(self.asked)}-{time.monotonic_ns()}"
        self.asked[code] = query
        return code, query["state"]

    def id_token(self, begun: dict[str, str]) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": begun["client_id"], "sub": "1", "iat": now, "exp": now + 60}
        claims |= {"nonce": begun["nonce"], "email": "zoe@example.com", "groups": ["staff"], **self.claims}
        kept = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "RS256", "kid": self.key.kid, **self.header}
        return jwt.encode(header, kept, self.signs_with or self.key, algorithms=[header["alg"]])


def challenge(verifier: str) -> str:
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@contextmanager
def oidc_provider() -> Iterator[OidcProvider]:
    found = OidcProvider()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        thread.join()
        found.server.server_close()
