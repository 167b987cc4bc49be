"""Files made to do harm: bombs, pipes, other formats in disguise, links that lead nowhere good."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.data import fetching, load
from kvicreg.data.archives import FetchError, extract, gunzip
from kvicreg.data.files import FileData
from kvicreg.data.formats import read_idx
from kvicreg.data.pixels import MAX_PIXELS, decode
from kvicreg.data.sources.folders import images_below


def png(width: int, height: int, rows: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9000, 60000, 2**31 - 1])
def test_a_decompression_bomb_is_refused_by_its_header(tmp_path, side, recwarn):
    path = tmp_path / "bomb.png"
    path.write_bytes(png(side, side, b"\0" * 10_000))
    assert side * side > MAX_PIXELS
    with pytest.raises(Exception, match="pixels"):
        decode(path, 3, 32)
    assert not list(recwarn), "nothing is said twice"


def test_a_large_photograph_is_no_bomb(tmp_path):
    Image.new("RGB", (9000, 9000), (10, 20, 30)).save(tmp_path / "large.jpg", quality=30)
    colour = decode(tmp_path / "large.jpg", 3, 16).float().mean((1, 2))
    assert colour.tolist() == pytest.approx([10, 20, 30], abs=5)


@pytest.mark.parametrize(
    "content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", b"RIFF....AVI LIST"]
)
def test_another_format_under_an_images_name_is_not_opened(tmp_path, content):
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(Image.UnidentifiedImageError):
        decode(tmp_path / "x.png", 3, 16)


def test_a_pipe_is_not_waited_for(tmp_path, write_images):
    paths = write_images(tmp_path, 4)
    os.mkfifo(tmp_path / "004.png")
    data = FileData([*paths, tmp_path / "004.png"], size=8)
    assert len(data.fetch(torch.arange(5))) == 5
    assert data.unreadable == [tmp_path / "004.png"]


def test_a_folder_that_links_to_itself_is_read_once(tmp_path, write_images):
    write_images(tmp_path / "a", 3)
    (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert len(images_below(tmp_path)) == 3


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0\x08", b"\0\0\x08\0", b"\0\0\x08\x02" + struct.pack(">ii", -1, -5) + b"12345",
     b"\0\0\x08\x03" + struct.pack(">iii", 2**31 - 1, 2**31 - 1, 4) + b"1234", b"\0\0\x0d\x01" + struct.pack(">i", 1)],
)  # fmt: skip
def test_an_idx_header_that_lies_is_told(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="x"):
        read_idx(tmp_path / "x")


def test_a_cut_off_gz_is_told(tmp_path):
    whole = gzip.compress(b"\0\0\x08\x01" + struct.pack(">i", 1000) + bytes(1000))
    (tmp_path / "x.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="damaged"):
        read_idx(tmp_path / "x")


def test_labels_beyond_the_classes_are_told(tmp_path, rng):
    folder = tmp_path / "cifar10"
    folder.mkdir()
    for name in [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]:
        rng.integers(100, 255, 3073, dtype=np.uint8).tofile(folder / name)
    with pytest.raises(ValueError, match="label"):
        load("cifar10", root=tmp_path)


def test_archives_unpack_to_no_more_than_they_may(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(5_000_000)))
    with pytest.raises(FetchError, match="more than it should"):
        gunzip(tmp_path / "x.gz", tmp_path / "x", limit=1_000_000)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        for k in range(3):
            zipped.writestr(f"f/{k}", bytes(400_000))
    with pytest.raises(FetchError, match="more than it should"):
        extract(tmp_path / "x.zip", "f", tmp_path / "out", limit=1_000_000)
    assert sum(path.stat().st_size for path in (tmp_path / "out").iterdir()) <= 1_000_000


def test_links_and_devices_in_archives_are_left_out(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for kind, name in ((tarfile.SYMTYPE, "link"), (tarfile.LNKTYPE, "hard"), (tarfile.CHRTYPE, "device")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
        entry = tarfile.TarInfo("link/below")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    extract(tmp_path / "x.tar", "", tmp_path / "out", limit=100)
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["link", "below"]
    assert not (tmp_path / "out" / "link").is_symlink()


@pytest.mark.parametrize("url", ["http://a.example/x", "ftp://a.example/x", "file:///etc/passwd"])
def test_only_addresses_with_tls_are_asked(tmp_path, url):
    with pytest.raises(FetchError, match="TLS"):
        fetching.download(url, tmp_path / "x", lambda *_: None, limit=100)
    with pytest.raises(FetchError, match="TLS"):
        fetching._OnlySecure().redirect_request(None, None, 302, "", {}, url)
