"""Damaged and hostile archives, tables and arrays: a sentence that names the file, and nothing hangs."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_files import arrays, encoded, parquet, saved, table, tarred, zipped

from kvicreg.data import load
from kvicreg.data.pixels import decode, raw_pixels, read_header
from kvicreg.data.sources import members

few = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
MAKERS = {"zip": zipped, "tar": tarred, "parquet": parquet, "npz": arrays, "csv": table}


def read_all(path: Path) -> None:
    data = load(path)
    data.fetch(torch.arange(len(data)))


def reads_or_names(path: Path) -> None:
    """Read all images; what can't be read is a ValueError that names the file."""
    try:
        read_all(path)
    except ValueError as error:
        if path.stem not in str(error):
            raise


@pytest.mark.parametrize("kind", MAKERS)
@few
@given(data=st.data())
def test_any_bytes_changed_or_cut(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    path = MAKERS[kind](tmp_path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    reads_or_names(path)


@pytest.mark.parametrize("kind", [*MAKERS, "npy"])
@pytest.mark.parametrize(
    "content", [b"", b"PK\3\4", b"\x93NUMPY\1\0", b"PAR1" * 9, bytes(5000), b"no such thing\n" * 99]
)
def test_another_files_content_is_told_by_name(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / f"photos.{kind}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"photos"):
        read_all(path)


@pytest.mark.parametrize("file", ["state.json", "dataset_info.json", "data-00000-of-00002.arrow"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff" * 64])
def test_a_damaged_saved_folder_is_told(tmp_path: Path, file: str, content: bytes) -> None:
    path = saved(tmp_path)
    (path / file).write_bytes(content)
    reads_or_names(path)


def test_offsets_that_lead_out_of_an_arrow_stream_are_told(tmp_path: Path) -> None:
    path = saved(tmp_path)
    file = path / "data-00000-of-00002.arrow"
    content, first = file.read_bytes(), len(encoded(0))
    offsets = struct.pack("<2i", 0, first)
    assert offsets in content
    file.write_bytes(content.replace(offsets, struct.pack("<2i", 0, 2**31 - 1), 1))
    with pytest.raises(ValueError, match=r"data-00000-of-00002\.arrow: record batch 0 is damaged in column 'image'"):
        read_all(path)


def test_a_saved_folder_can_not_name_files_elsewhere(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../../secret.arrow"}]}))
    with pytest.raises(ValueError, match=r"state\.json names '\.\./\.\./secret\.arrow', expected a file of its folder"):
        load(path)


@pytest.mark.parametrize("name", ["../x.png", "/etc/x.png", "a/../../x.png", "..\\x.png"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_names_that_lead_out_are_left_out(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / f"x.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("ok.png", encoded(1))
            archive.writestr(zipfile.ZipInfo(name), encoded(2))
    else:
        with tarfile.open(path, "w") as tar:
            for member in ("ok.png", name):
                entry = tarfile.TarInfo(member)
                entry.size = len(encoded(1))
                tar.addfile(entry, io.BytesIO(encoded(1)))
    data = load(path)
    if "\\" not in name or kind == "tar":  # zipfile may turn the backslash
        assert len(data) == 1
        assert any("leads out of the archive" in note for note in data.notes)


def test_links_and_devices_in_a_tar_are_no_images(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, kind in (
            ("link.png", tarfile.SYMTYPE),
            ("pipe.png", tarfile.FIFOTYPE),
            ("hard.png", tarfile.LNKTYPE),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
    with pytest.raises(ValueError, match=r"x\.tar: there is no image in it"):
        load(tmp_path / "x.tar")


def test_a_bomb_in_a_zip_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for k in range(3):
            archive.writestr(f"{k}.png", encoded(k))
        archive.writestr("bomb.png", bytes(1 << 22))
    monkeypatch.setattr("kvicreg.data.sources.zip_archive.MAX_MEMBER", 1 << 20)
    data = load(tmp_path / "x.zip")
    data.fetch(torch.arange(4))
    assert [path.name for path in data.unreadable] == ["bomb.png"]
    assert members.MAX_MEMBER >= 1 << 28


def test_a_zip_that_lies_about_its_sizes_is_told(tmp_path: Path) -> None:
    path = zipped(tmp_path)
    content = path.read_bytes()
    entry = content.index(b"PK\1\2")  # of the first member in the directory: make its size small
    path.write_bytes(content[: entry + 24] + struct.pack("<I", 7) + content[entry + 28 :])
    data = load(path)
    data.fetch(torch.arange(len(data)))
    assert len(data.unreadable) == 1


def test_an_encrypted_zip_is_told(tmp_path: Path) -> None:
    path = zipped(tmp_path)
    content = bytearray(path.read_bytes())
    start = 0
    while (start := content.find(b"PK\1\2", start + 1)) > 0:
        content[start + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"it is encrypted, expected a member that is stored or deflated"):
        read_all(path)


def test_an_array_that_claims_to_be_huge(tmp_path: Path) -> None:
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000, 3, 999, 999), }"
    header += b" " * (117 - len(header)) + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(99))
    with pytest.raises(ValueError, match=r"x\.npy: expected an array that numpy wrote"):
        load(tmp_path / "x.npy")


def test_a_pickle_in_an_array_is_not_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x\.npy"):
        load(tmp_path / "x.npy")


def tiff(width: int, height: int, samples: int = 1, bits: int = 16, next_page: int = 0) -> bytes:
    """A TIFF with a header alone."""
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, bits), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8),
            (277, 3, 1, samples), (278, 4, 1, height), (279, 4, 1, 64)]  # fmt: skip
    return (
        b"II*\0"
        + struct.pack("<IH", 8, len(tags))
        + b"".join(struct.pack("<HHII", *t) for t in tags)
        + struct.pack("<I", next_page)
    )


@pytest.mark.parametrize("content", [
    tiff(60000, 60000), tiff(2**31, 2**31, 5), tiff(8, 8, 60000), tiff(8, 8, 1, 64), tiff(8, 8, next_page=8),
    tiff(0, 0), tiff(8, 8)[:40], b"II*\0", b"II+\0" + bytes(40), b"MM\0*\xff\xff\xff\xff",
])  # fmt: skip
def test_a_tiff_that_lies_is_refused_quickly(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tif"
    path.write_bytes(content)
    for read in (read_header, raw_pixels, lambda file: decode(file, 3, 16), lambda file: raw_pixels(file, None)):
        try:
            read(path)
        except MemoryError:
            raise
        except Exception:  # a reader of files may raise anything, which `FileData` takes for a bad file
            continue


@few
@given(data=st.data())
def test_a_damaged_tiff_never_stops_a_folder(tmp_path: Path, data: st.DataObject) -> None:
    tifffile = pytest.importorskip("tifffile")
    file = io.BytesIO()
    tifffile.imwrite(file, np.arange(8 * 8 * 5, dtype=np.uint16).reshape(8, 8, 5), planarconfig="contig")
    folder = tmp_path / "tiffs"
    folder.mkdir(exist_ok=True)
    for k in range(3):
        (folder / f"{k}.tif").write_bytes(file.getvalue())
    content = bytearray(file.getvalue())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / "3.tif").write_bytes(content)
    read_all(folder)


@pytest.mark.parametrize("kind", ["tar_archive", "zip_archive"])
def test_a_member_may_be_as_large_as_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    path = (tarred if kind == "tar_archive" else zipped)(tmp_path)
    largest = max(len(encoded(k)) for k in range(12))
    monkeypatch.setattr(f"kvicreg.data.sources.{kind}.MAX_MEMBER", largest)
    read_all(path)
    monkeypatch.setattr(f"kvicreg.data.sources.{kind}.MAX_MEMBER", 10)
    with pytest.raises(ValueError, match=rf"\(it claims {len(encoded(0))} bytes, expected at most 10\)"):
        read_all(path)


def test_a_tar_with_labels_is_a_shard_unless_its_folders_are_the_classes(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, content in (
            ("a/0.png", encoded(0)),
            ("a/0.cls", b"dog"),
            ("b/1.png", encoded(1)),
            ("b/1.cls", b"ant"),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    assert load(tmp_path / "x.tar").class_names == ["ant", "dog"]
    assert load(tmp_path / "x.tar", class_level=1).class_names == ["a", "b"]


def test_a_tar_that_ends_within_an_image_tells_how_far_it_goes(tmp_path: Path) -> None:
    path = tarred(tmp_path)
    data = load(path)
    path.write_bytes(path.read_bytes()[: 512 + 20])
    with pytest.raises(ValueError, match=rf"the archive ends within it: 20 of {len(encoded(0))} bytes are there"):
        data.fetch(torch.arange(12))
