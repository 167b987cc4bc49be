"""A file is whole or absent; a folder has one process at work on it."""

import os
import subprocess
import sys

import pytest

from kvicreg.storage import message_of, replacing, working_on, write_atomically


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / "a[1]*.txt"
    write_atomically(path, b"old")
    with pytest.raises(TypeError), replacing(path) as temporary:
        temporary.write_bytes(b"ne" + None)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [path.name]


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".x.json.{dead.pid}.tmp").write_text("half")
    (tmp_path / f".x.json.{os.getppid()}.tmp").write_text("under way")
    write_atomically(tmp_path / "x.json", b"{}")
    assert sorted(os.listdir(tmp_path)) == [f".x.json.{os.getppid()}.tmp", "x.json"]


def test_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match="results.json") as caught, replacing(tmp_path / "results.json"):
        raise OSError(28, "No space left on device")
    assert caught.value.errno == 28


def test_a_read_only_folder_names_the_file(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        write_atomically(tmp_path / "nowhere" / "x.json", b"")


def test_a_folder_is_given_back(tmp_path):
    for _ in range(2):
        with working_on(tmp_path, "a test"):
            assert f"a test, process {os.getpid()}" in (tmp_path / ".lock").read_text()
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("two\n  lines"), "two lines"),
        (KeyError(), "KeyError"),
        (OSError("x" * 300), "x" * 200),
        (OSError("cannot identify image file <_io.BytesIO object at 0x7f3A>"), "cannot identify image file"),
    ],
    ids=["lines", "nothing", "long", "address"],
)
def test_the_message_of_an_error_fits_into_a_sentence(error, message):
    assert message_of(error) == message
