"""The page's server: Starlette on this machine alone, behind a `Guard`. It serves images by number, never by path."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from io import BytesIO
from typing import Any

import torch
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kvicreg.explore.collection import Match
from kvicreg.explore.guard import App, Guard, TooLarge
from kvicreg.explore.lists import image_column, table_text
from kvicreg.explore.session import Session

__all__ = ["ASSETS", "application", "serve"]

SCRIPTS = ("api", "clean", "colours", "kernel", "label", "look", "main", "map", "pictures", "points")
ASSETS = {
    "icon.svg": "image/svg+xml",
    "style.css": "text/css",
    **{f"{name}.js": "text/javascript" for name in SCRIPTS},
}
SIDES = (48, 96, 320)


def application(session: Session, token: str, port: int) -> App:
    """The guarded application of a session."""
    pages = _Pages(session)
    routes = [
        Route("/", pages.page),
        Route("/assets/{name}", pages.asset),
        *(Route(f"/{name}", _answered(method), methods=[kind]) for kind, name, method in pages.methods()),
    ]
    return Guard(Starlette(routes=routes), token, port)


def _answered(method: Callable[[Request, Any], Any]) -> Callable[[Request], Any]:
    """An endpoint whose wrong arguments are told in a sentence, and which works outside the event loop."""
    from starlette.concurrency import run_in_threadpool

    async def endpoint(request: Request) -> Response:
        try:
            body = await request.body() if request.method == "POST" else b""
            content = await run_in_threadpool(method, request, body)
        except TooLarge as error:
            return PlainTextResponse(str(error), status_code=413)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            return PlainTextResponse(str(error), status_code=400)
        return content if isinstance(content, Response) else JSONResponse(content)

    return endpoint


class _Pages:
    def __init__(self, session: Session) -> None:
        self.session, self.images = session, session.images
        self.picture_file = lru_cache(maxsize=4096)(self.images.picture)

    def methods(self) -> list[tuple[str, str, Callable[..., Any]]]:
        return [
            ("GET", "state", self.state),
            ("GET", "points", self.points),
            ("GET", "column/{key}", self.column),
            ("GET", "picture/{index:int}/{side:int}", self.picture),
            ("GET", "item/{index:int}", self.item),
            ("GET", "names", self.names),
            ("POST", "search", self.search),
            ("POST", "search-image", self.search_image),
            ("GET", "duplicates", self.duplicates),
            ("GET", "outliers", self.outliers),
            ("GET", "problems", self.problems),
            ("GET", "gallery/{component:int}", self.gallery),
            ("POST", "label", self.label),
            ("GET", "questions", self.questions),
            ("GET", "export", self.export),
            ("POST", "list", self.list),
        ]

    async def page(self, request: Request) -> Response:
        return Response(_asset("index.html"), media_type="text/html", headers={"cache-control": "no-store"})

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return PlainTextResponse("there is no such file", status_code=404)
        return Response(_asset(name), media_type=ASSETS[name], headers={"cache-control": "no-store"})

    def state(self, request: Request, body: bytes) -> Any:
        return self.session.state()

    def points(self, request: Request, body: bytes) -> Any:
        return _binary(self.session.points.float().contiguous().numpy().tobytes())

    def column(self, request: Request, body: bytes) -> Any:
        column = self.session.all_columns()[request.path_params["key"]]
        return _binary(column.values().astype("<f4").tobytes())

    def picture(self, request: Request, body: bytes) -> Any:
        index, side = self._index(request), request.path_params["side"]
        if side not in SIDES:
            raise ValueError(f"side must be one of {SIDES}")
        headers = {"cache-control": "private, max-age=86400"}
        return Response(self.picture_file(index, side), media_type="image/webp", headers=headers)

    def item(self, request: Request, body: bytes) -> Any:
        index, session = self._index(request), self.session
        matches = session.search(self.images.unit[index], {index}, 12)
        about: dict[str, Any] = {"index": index, "name": self.images.names[index]}
        about["label"] = session.labels.labels.get(index)
        about["values"] = self._values(index)
        about["neighbours"] = _plain(matches)
        about["pixels"] = _plain(self.images.pixel_neighbours(index, 12))
        about["problems"] = [f"{p.kind}: {p.detail}" for p in session.problems if p.index == index]
        if session.view is not None:
            others = torch.tensor([match.index for match in matches])
            about["kernel"] = [round(value, 4) for value in session.view.values(index, others).tolist()]
            about["components"] = [round(value, 3) for value in session.view.components[index].tolist()]
            about["shares"] = [round(value, 4) for value in session.view.shares.tolist()]
        return about

    def _values(self, index: int) -> dict[str, str]:
        """What the columns say of an image."""
        words = {}
        for column in self.session.all_columns().values():
            value = float(column.values()[index])
            if value == value and not column.title.startswith("kernel component"):
                words[column.title] = f"{value:.3g}" if column.names is None else column.names()[int(value)]
        return words

    def names(self, request: Request, body: bytes) -> Any:
        text = request.query_params.get("text", "").lower()
        return [index for index, name in enumerate(self.images.names) if text in name.lower()]

    def search(self, request: Request, body: bytes) -> Any:
        wanted = _object(body)
        positive, negative = (_numbers(wanted.get(key, [])) for key in ("positive", "negative"))
        return _plain(self.session.search(self.images.query(positive, negative), {*positive, *negative}, 24))

    def search_image(self, request: Request, body: bytes) -> Any:
        return _plain(self.session.search(self.images.embed(body), set(), 24))

    def duplicates(self, request: Request, body: bytes) -> Any:
        groups = self.session.groups(float(request.query_params["threshold"]))
        shown = [[{"index": i, "name": self.images.names[i]} for i in group[:24]] for group in groups[:60]]
        members = [i for group in groups for i in group]
        return {"groups": shown, "count": len(groups), "images": len(members), "members": members[:200_000]}

    def outliers(self, request: Request, body: bytes) -> Any:
        if "outlier" not in self.session.columns:
            return []
        scores = self.session.scores.nan_to_num(-1.0)
        best = scores.topk(min(120, len(scores)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return _plain([Match(i, self.images.names[i], value) for i, value in pairs])

    def problems(self, request: Request, body: bytes) -> Any:
        rows = self.session.problems[:2000]
        return [
            {"index": p.index, "name": self.images.names[p.index], "kind": p.kind, "detail": p.detail} for p in rows
        ]

    def gallery(self, request: Request, body: bytes) -> Any:
        view = self.session.view
        if view is None:
            return {"high": [], "low": []}
        high, low = view.gallery(request.path_params["component"])
        sides = {"high": high.tolist(), "low": low.tolist()}
        return {side: [{"index": i, "name": self.images.names[i]} for i in rows] for side, rows in sides.items()}

    def label(self, request: Request, body: bytes) -> Any:
        wanted = _object(body)
        label = wanted["label"]
        if label is not None and not isinstance(label, str):
            raise ValueError("label must be a text, or null for none")
        self.session.set_label(_numbers(wanted["images"]), label)
        return {"version": self.session.labels.version}

    def questions(self, request: Request, body: bytes) -> Any:
        opinion = self.session.opinion()
        rows = []
        for index in self.session.questions(6):
            guess = None if opinion is None else opinion.classes[int(opinion.prediction[index])]
            rows.append({"index": index, "name": self.images.names[index], "guess": guess})
        given = {str(index): label for index, label in self.session.labels.labels.items()}
        return {"asked": rows, "given": given}

    def export(self, request: Request, body: bytes) -> Any:
        """The labels as a file that `train` and `evaluate` read."""
        labels = self.session.labels
        if self.images.data.paths is not None:
            text = labels.path.read_text(encoding="utf-8") if labels.path.is_file() else ""
            return _download(text.encode(), labels.path.name, "text/csv")
        file = BytesIO()
        labels.export_arrays(file)
        return _download(file.getvalue(), f"{labels.path.stem}.npz", "application/octet-stream")

    def list(self, request: Request, body: bytes) -> Any:
        """A list of images as CSV, named as from the folder of the labels."""
        rows = [index for index in _numbers(_object(body)["images"]) if 0 <= index < len(self.images)]
        header, name_of = image_column(self.images.data, self.session.labels.path)
        return _download(table_text([header], [(name_of(index),) for index in rows]).encode(), "list.csv", "text/csv")

    def _index(self, request: Request) -> int:
        index = int(request.path_params["index"])
        if not 0 <= index < len(self.images):
            raise ValueError(f"image must be a number from 0 to {len(self.images) - 1}, got {index}")
        return index


@lru_cache(maxsize=32)
def _asset(name: str) -> bytes:
    return resources.files("kvicreg.explore").joinpath("assets", name).read_bytes()


def _binary(content: bytes) -> Response:
    return Response(content, media_type="application/octet-stream", headers={"cache-control": "no-store"})


def _download(content: bytes, name: str, kind: str) -> Response:
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{safe}"'})


def _plain(matches: list[Match]) -> list[dict[str, Any]]:
    return [{"index": m.index, "name": m.name, "similarity": round(m.similarity, 4)} for m in matches]


def _object(body: bytes) -> dict[str, Any]:
    content = json.loads(body)
    if not isinstance(content, dict):
        raise ValueError("expected an object")
    return content


def _numbers(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError("images must be a list of whole numbers")
    return values


def serve(session: Session, *, port: int = 0, ready: Callable[[str], None] | None = None) -> None:
    """Serve a session on this machine until it is interrupted.

    Args:
        port: 0 for a free one.
        ready: is called with the address, which has the token in it.
    """
    import uvicorn

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
        app: Any = application(session, token, port)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, ws="none")
        config.timeout_graceful_shutdown = 1
        listener.listen(128)
        session.start()
        if ready is not None:
            ready(f"http://127.0.0.1:{port}/{token}/")
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            session.close()
