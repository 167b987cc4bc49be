"""Fetching against a server of our own: resuming, checksums, mirrors, and being killed half way."""

from __future__ import annotations

import gzip
import hashlib
import io
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kvicreg.data import catalogue, fetching, mirrors
from kvicreg.data.archives import FetchError, extract
from kvicreg.data.catalogue import DataSet, Mirror

CONTENT = bytes(range(256)) * 4000  # about 1 MB


class Server:
    """Serves `files`; `cut` ends each answer after so many bytes, `slow` waits between blocks."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.slow = 0.0
        self.requests: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                outer.requests.append((self.path, asked))
                if self.path not in outer.files:
                    self.send_error(404)
                    return
                content = outer.files[self.path]
                start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206 if asked else 200)
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                body = content[start:] if outer.cut is None else content[start : start + outer.cut]
                for k in range(0, len(body), 1 << 16):
                    try:
                        self.wfile.write(body[k : k + (1 << 16)])
                    except OSError:  # the reader was killed
                        return
                    time.sleep(outer.slow)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def known(monkeypatch: pytest.MonkeyPatch, **entry: object) -> None:
    """Make `toy` a data set of the catalogue."""
    settings = {"title": "toy", "licence": "none", "megabytes": 1, "files": {"a.bin": md5(CONTENT)}} | entry
    monkeypatch.setitem(catalogue.DATA_SETS, "toy", DataSet(**settings))  # type: ignore[arg-type]


def test_an_archive_is_fetched_verified_and_put_in_place(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/toy.tar.gz"] = tar_of({"top/a.bin": CONTENT, "elsewhere/b": b"b"})
    known(monkeypatch, urls=(f"{server.url}/toy.tar.gz",), folder="top")
    steps: list[int] = []
    folder = fetching.get("toy", tmp_path, say=lambda _: None, progress=lambda what, done, total: steps.append(done))
    assert (folder / "a.bin").read_bytes() == CONTENT
    assert [p.name for p in tmp_path.rglob("*")] == ["toy", "a.bin"]  # nothing else stays
    assert steps == sorted(steps)
    assert steps[-1] == len(server.files["/toy.tar.gz"])
    server.requests.clear()
    fetching.get("toy", tmp_path, say=lambda _: None)
    assert server.requests == []  # it is there and right


def test_gzipped_files_below_an_address(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["/data/a.bin.gz"] = gzip.compress(CONTENT)
    known(monkeypatch, urls=(f"{server.url}/data/",))
    assert (fetching.get("toy", tmp_path, say=lambda _: None) / "a.bin").read_bytes() == CONTENT


def test_a_broken_connection_is_continued_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.files["/x"] = CONTENT
    server.cut = 400_000
    fetching.download(f"{server.url}/x", tmp_path / "x", lambda *_: None, limit=1 << 30)
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=400000-", "bytes=800000-"]


def test_giving_up_keeps_what_arrived_for_the_next_time(server: Server, tmp_path: Path) -> None:
    server.files["/x"] = CONTENT
    server.cut = 1000
    with pytest.raises(FetchError, match="broke off 3 times, at 3,000 of 1,024,000 bytes"):
        fetching.download(f"{server.url}/x", tmp_path / "x", lambda *_: None, limit=1 << 30)
    server.cut = None
    fetching.download(f"{server.url}/x", tmp_path / "x", lambda *_: None, limit=1 << 30)
    assert server.requests[-1] == ("/x", "bytes=3000-")
    assert (tmp_path / "x").read_bytes() == CONTENT


def test_a_wrong_checksum_is_told_and_the_next_source_is_tried(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/bad.tar.gz"] = tar_of({"top/a.bin": CONTENT[:-1] + b"!"})
    server.files["/good.tar.gz"] = tar_of({"top/a.bin": CONTENT})
    known(monkeypatch, urls=(f"{server.url}/bad.tar.gz", f"{server.url}/good.tar.gz"), folder="top")
    said: list[str] = []
    folder = fetching.get("toy", tmp_path, say=said.append)
    assert any("a.bin has the checksum" in line for line in said)
    assert (folder / "a.bin").read_bytes() == CONTENT


def test_only_wrong_sources_leave_nothing_behind(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/toy.zip"] = b"not a zip file"
    known(monkeypatch, urls=(f"{server.url}/toy.zip", f"{server.url}/missing.zip"), files={}, archive_md5="0" * 32)
    said: list[str] = []
    with pytest.raises(FetchError, match="no source worked for toy"):
        fetching.get("toy", tmp_path, say=said.append)
    assert "the server answers 404" in said[-1]
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_address_costs_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, urls=("http://127.0.0.1:9/x.zip",))
    said: list[str] = []
    with pytest.raises(FetchError):
        fetching.get("toy", tmp_path, say=said.append)
    assert len(said) == 2
    assert "it can't be reached" in said[1]


def test_a_damaged_copy_is_replaced(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["/toy.tar.gz"] = tar_of({"a.bin": CONTENT})
    known(monkeypatch, urls=(f"{server.url}/toy.tar.gz",))
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "a.bin").write_bytes(b"damaged")
    assert (fetching.get("toy", tmp_path, say=lambda _: None) / "a.bin").read_bytes() == CONTENT
    assert [p.name for p in tmp_path.iterdir()] == ["toy"]


def test_killed_half_way_then_run_again(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "toy.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("a.bin", CONTENT)
    server.files["/toy.zip"] = archive.read_bytes()
    server.slow = 0.1
    program = (
        "import sys; from kvicreg.data import catalogue, fetching\n"
        f"entry = catalogue.DataSet('toy', 'none', 1, files={{'a.bin': {md5(CONTENT)!r}}}, urls=(sys.argv[1],))\n"
        "catalogue.DATA_SETS['toy'] = entry; fetching.get('toy', sys.argv[2])"
    )
    root = tmp_path / "root"
    child = subprocess.Popen([sys.executable, "-c", program, f"{server.url}/toy.zip", root], stdout=subprocess.PIPE)
    part = root / ".toy.partial" / "toy.zip.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size > 0) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    arrived = part.stat().st_size
    assert 0 < arrived < len(server.files["/toy.zip"])
    assert not (root / "toy").exists()
    server.slow = 0.0
    known(monkeypatch, urls=(f"{server.url}/toy.zip",))
    assert (fetching.get("toy", root, say=lambda _: None) / "a.bin").read_bytes() == CONTENT
    assert server.requests[-1] == ("/toy.zip", f"bytes={arrived}-")


@pytest.mark.parametrize("name", ["../evil", "top/../../evil", "/tmp/evil"])
def test_no_archive_escapes_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.tar.gz").write_bytes(tar_of({name: b"evil"}))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as zipped:
        zipped.writestr(name, b"evil")
    for archive in ("x.tar.gz", "x.zip"):
        with pytest.raises(FetchError, match="a path outside of its folder"):
            extract(tmp_path / archive, "", tmp_path / "out", limit=1 << 30)


def test_links_in_archives_are_left_out(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    (tmp_path / "out").mkdir()
    extract(tmp_path / "x.tar", "", tmp_path / "out", limit=1 << 30)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_mirror_is_used_when_the_address_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, urls=("http://127.0.0.1:9/x/",), mirrors=(Mirror("npm", "toy@1.0", "package/data"),))

    def client(command: list[str], place: Path) -> None:
        assert command[:3] == ["npm", "pack", "toy@1.0"]
        (place / "toy-1.0.tgz").write_bytes(tar_of({"package/data/a.bin.gz": gzip.compress(CONTENT)}))

    monkeypatch.setattr(mirrors, "_run", client)
    assert (fetching.get("toy", tmp_path, say=lambda _: None) / "a.bin").read_bytes() == CONTENT


def test_a_client_that_is_not_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, mirrors=(Mirror("npm", "toy@1.0", "package"),))
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    with pytest.raises(FetchError):
        fetching.get("toy", tmp_path, say=said.append)
    assert said[-1] == "toy: not from there: npm is not installed"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar", "no data set is called 'cifar'; the names are mnist-small, digits"),
        ("mnist-small", "it is inside the package"),
        ("imagenet100", r"account with image-net\.org"),
    ],
)
def test_what_can_t_be_fetched_is_explained(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fetching.get(name, tmp_path)


def test_every_named_data_set_is_known_by_checksum() -> None:
    for name, entry in catalogue.DATA_SETS.items():
        assert entry.licence
        if entry.urls or entry.mirrors:
            assert entry.files or entry.archive_md5, name
            assert all(url.startswith("https://") for url in entry.urls), name
