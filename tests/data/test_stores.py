"""Stores: files here or at an address, read by name and place; and the patterns that name them."""

from __future__ import annotations

import re
from pathlib import Path

import fsspec
import pytest

from kvicreg.data.stores import SourceError, Store, _version, expand, is_address


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("a-{08..10}.tar", ["a-08.tar", "a-09.tar", "a-10.tar"]),
        ("{3..3}", ["3"]),
        ("{x,y}-{0..1}", ["x-0", "x-1", "y-0", "y-1"]),
        ("{1..b}", ["1..b"]),
    ],
)
def test_names_that_a_pattern_stands_for(pattern: str, names: list[str]) -> None:
    assert expand(pattern) == names


def test_a_pattern_stands_for_a_hundred_thousand_names_at_most() -> None:
    assert len(expand("{1..100000}")) == 100_000
    for wrong in ("{0..100000}", "{2..1}"):
        message = f"data: expected up to 100,000 numbers in ascending order, got {wrong}"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            expand(wrong)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("s3://a/b", True), ("c://x", False), ("/a://b", False), ("a/b", False), ("git+x.y-1://a", True)],
)
def test_what_an_address_looks_like(text: str, is_one: bool) -> None:
    assert is_address(text) == is_one
    entry = {"name": "a", "ETag": "x", "mtime": 3, "size": 9}
    assert _version(entry) == "x 3"


@pytest.mark.parametrize("kind", ["here", "memory"])
def test_a_part_of_a_file_in_a_store(tmp_path: Path, kind: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "a").write_bytes(b"0123456789")
    fsspec.filesystem("memory").pipe({"/stores/x/a": b"0123456789", "/stores/x/in/b": b""})
    store = Store(str(tmp_path) if kind == "here" else "memory://stores/x/")
    place = re.escape(store.place)
    assert store.read("a", 3, 4) == b"3456"
    assert store.open("a").read() == b"0123456789"
    for names in (None, ["a", "none"]):
        assert {name: size for name, (size, _) in store.versions(names).items()} == {"a": 10}
    assert store.versions()["a"][1] != ""
    with pytest.raises(SourceError, match=f"^{place}: a ends too early, at byte 10: it is damaged$"):
        store.read("a", 8, 4)
    with pytest.raises(SourceError, match=rf"^{place}: none can't be read any more \("):
        store.read("none", 0, 1)


def test_an_address_with_nothing_or_of_no_kind_is_told() -> None:
    with pytest.raises(SourceError, match="^data: there is nothing at memory://stores/none$"):
        Store("memory://stores/none").versions()
    with pytest.raises(SourceError, match=r"^data: nosuch://x can't be opened \(Protocol not known: nosuch\)$"):
        Store("nosuch://x").versions()
