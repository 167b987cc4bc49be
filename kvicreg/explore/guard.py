"""Who is let in: requests with the token in their path, to this machine by its name, from this page alone."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["HEADERS", "LARGEST_BODY", "Guard", "TooLarge"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LARGEST_BODY = 32 << 20
POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' blob:", "connect-src 'self'",
        "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    )
)  # fmt: skip
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",  # the address has the token in it
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class TooLarge(Exception):
    """A request's body is larger than what is taken."""


class Guard:
    """An ASGI application around another, which only sees requests that are allowed, without the token.

    Args:
        app: the application.
        token: the first part of every path.
        port: at which this machine is addressed.
    """

    def __init__(self, app: App, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"{host}:{port}" for host in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        status, reason = self._refusal(scope["path"], headers)
        if status:
            await _answer(send, status, reason)
            return
        path = scope["path"].removeprefix(f"/{self.token}")

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        await self.app({**scope, "path": path, "raw_path": path.encode()}, _limited(receive), guarded_send)

    def _refusal(self, path: str, headers: dict[str, str]) -> tuple[int, str]:
        """The status and reason for which a request is refused; 0 for none."""
        if headers.get("host", "") not in self.hosts:
            return 403, "another host"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[::2] not in {("http", host) for host in self.hosts}:
            return 403, "another origin"
        if not hmac.compare_digest(path.split("/")[1].encode(), self.token.encode()):
            return 403, "this address has no valid token: open the one that kvicreg explore has printed"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return 413, f"more than {LARGEST_BODY >> 20} MB"
        return 0, ""


def _limited(receive: Receive) -> Receive:
    """What is received, up to the limit: the length that a request states need not be true."""
    total = 0

    async def limited() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > LARGEST_BODY:
            raise TooLarge(f"more than {LARGEST_BODY >> 20} MB")
        return message

    return limited


async def _answer(send: Send, status: int, reason: str) -> None:
    headers = {**HEADERS, "content-type": "text/plain; charset=utf-8", "connection": "close"}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": reason.encode()})
