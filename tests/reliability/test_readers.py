"""Any bytes, any text, any settings: a reader gives a value or says what is wrong, and nothing else comes out of it."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvicreg.data.archives import FetchError, extract
from kvicreg.data.formats import read_idx
from kvicreg.data.sources.lists import list_file
from kvicreg.runs import RunFolder, Settings
from kvicreg.storage import read_arrays, read_yaml
from kvicreg.training.guard import read_fault

few = settings(max_examples=60, deadline=None, derandomize=True)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
anything = st.recursive(
    plain, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3)
)


def reads_or_tells(read: Callable[[], object], *words: str) -> None:
    """Call a reader; a ValueError or FetchError must have one of the words in its sentence, nothing else may come."""
    try:
        read()
    except (ValueError, FetchError) as error:
        if not any(word in str(error) for word in words):
            raise


def file_with(content: bytes, folder: str, name: str = "x") -> Path:
    path = Path(folder) / name
    path.write_bytes(content)
    return path


@few
@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda tail: b"\0\0\x08\x01\0\0\0\x04" + tail))
def test_idx(content):
    with tempfile.TemporaryDirectory() as folder:
        reads_or_tells(lambda: read_idx(file_with(content, folder)).shape, folder)


@few
@given(st.text(max_size=200) | st.lists(st.sampled_from("a: b\n[]{}&*<!|>?-'\" #%@"), max_size=40).map("".join))
def test_yaml(text):
    with tempfile.TemporaryDirectory() as folder:
        reads_or_tells(lambda: read_yaml(file_with(text.encode("utf-8", "surrogatepass"), folder)), "not valid YAML")


def test_yaml_whose_parts_double_at_every_step_is_refused(tmp_path):
    lines = ["a0: &a0 {k: 1}"] + [f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}], k{k}: 1}}" for k in range(1, 40)]
    with pytest.raises(ValueError, match="grow too large"):
        read_yaml(file_with("\n".join(lines).encode(), str(tmp_path)))


@few
@given(st.dictionaries(st.sampled_from([*Settings().flat(), "other"]), anything, min_size=1, max_size=3))
def test_settings(values):
    reads_or_tells(lambda: Settings.of(**values), *values)


@few
@given(st.binary(max_size=300), st.sampled_from((".zip", ".tar", ".tar.gz")))
def test_archives(content, ending):
    with tempfile.TemporaryDirectory() as folder:
        path = file_with(content, folder, f"x{ending}")
        reads_or_tells(lambda: extract(path, "", Path(folder) / "out", limit=1000), path.name)


@few
@given(st.text("./abc\\", min_size=1, max_size=12))
def test_an_archive_never_writes_outside_of_its_folder(name):
    with tempfile.TemporaryDirectory() as folder:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as zipped:
            zipped.writestr(zipfile.ZipInfo(name), b"x")
        archive = file_with(file.getvalue(), folder, "x.zip")
        with suppress(OSError):  # refused, or no name for a file
            extract(archive, "", Path(folder) / "a" / "b", limit=1000)
        outside = [p for p in Path(folder).rglob("*") if p.is_file() and not p.is_relative_to(Path(folder) / "a" / "b")]
        assert outside == [archive]


@few
@given(st.binary(max_size=200))
def test_arrays_and_faults(content):
    with tempfile.TemporaryDirectory() as folder:
        path = file_with(content, folder, "fault.npz")
        for read in (lambda: read_arrays(path), lambda: read_fault(RunFolder(folder))):
            reads_or_tells(read, "is damaged")


@few
@given(st.binary(max_size=100))
def test_lists(content):
    with tempfile.TemporaryDirectory() as folder:
        reads_or_tells(lambda: list_file(file_with(content, folder)), folder)
