"""Bad files of named data sets, of lists and of downloads."""

from __future__ import annotations

import io
import random
import shutil
import zipfile
from pathlib import Path

from kvicreg.data import catalogue
from tests.reliability.damage import spoil


def binary(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """idx and CIFAR files with wrong bytes."""
    name = chance.choice(("cifar10", "mnist"))
    shutil.copytree(base / "data" / name, folder / name)
    for path in chance.sample(sorted((folder / name).iterdir()), chance.choice((1, 2))):
        path.write_bytes(spoil(chance, path.read_bytes()))
        if chance.random() < 0.2:
            path.rename(f"{path}.gz")
    return [
        "data",
        "show",
        name,
        "--root=.",
        "--out=sheet.png",
        "--images=2",
        f"--split={chance.choice(('train', 'test'))}",
    ]


def lists(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """List files and files of groups."""
    lines = [
        f"{base}/images/train/a/0.png",
        f"{base}/images/train/b/1.png,b",
        "# x",
        "",
        "x.png\t1",
        "a,b,c",
        ",",
        "\t",
        "/etc/passwd",
        "../../x.png",
        "\0.png",
        "é.png,ü",
        "x" * 5000 + ".png",
    ]
    text = "\n".join(chance.choice(lines) for _ in range(chance.randrange(6))).encode()
    (folder / "list.txt").write_bytes(spoil(chance, text) if chance.random() < 0.6 else text)
    return ["data", "show", "list.txt", "--out=sheet.png"]


def archives(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """A mirror's or an official archive with wrong bytes: `data get` continues what it finds waiting."""
    waiting = folder / ".fuzzed.partial"
    waiting.mkdir()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(
            chance.choice(("top/a.bin", "../a.bin", "/a.bin", "top/../../a.bin", "top\\a", "top/")), b"a" * 999
        )
        zipped.writestr("top/b.bin", bytes(chance.choice((10, 30_000_000))))
    (waiting / "x.zip").write_bytes(spoil(chance, file.getvalue()) if chance.random() < 0.7 else file.getvalue())
    entry = catalogue.DataSet("", "", 1, files={"a.bin": "0" * 32}, urls=("https://127.0.0.1:9/x.zip",), folder="top")
    catalogue.DATA_SETS["fuzzed"] = entry
    return ["data", "get", "fuzzed", "--root=."]
