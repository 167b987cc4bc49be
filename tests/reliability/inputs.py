"""The makers of bad input: each writes files into a folder and gives the command line that reads them."""

from __future__ import annotations

import io
import json
import random
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from kvicreg.cli import COMMANDS, main
from kvicreg.data import catalogue
from kvicreg.options import readers
from kvicreg.runs import Settings
from tests.reliability.sources import prepare_sources, sources

Maker = Callable[[random.Random, Path, Path], list[str]]
SMALL = [
    "--width=0.25",
    "--pool=1",
    "--projector-hidden=8",
    "--projector-outputs=8",
    "--projector-layers=2",
    "--batch-size=8",
    "--spectrum-images=8",
    "--probe-images=8",
    "--accelerator=cpu",
    "--workers=0",
]


def prepare(base: Path) -> None:
    """Right files to spoil: a folder of images, a finished and evaluated run, binary data sets."""
    chance = random.Random(0)
    for split, count in (("train", 24), ("test", 8)):
        for k in range(count):
            place = base / "images" / split / "ab"[k % 2]
            place.mkdir(parents=True, exist_ok=True)
            picture(chance).resize((16, 16)).convert("RGB").save(place / f"{k}.png")
    run = base / "run"
    arguments = ["--data", str(base / "images"), "--image-size=16", "--epochs=2", f"--out={run}", *SMALL]
    assert main(["train", *arguments]) == 0
    assert main(["evaluate", str(run), "--robustness-images=0", "--map-images=0"]) == 0
    prepare_sources(base)
    cifar, mnist = base / "data" / "cifar10", base / "data" / "mnist"
    cifar.mkdir(parents=True)
    mnist.mkdir()
    rows = np.random.default_rng(0).integers(0, 10, (12, 3073), dtype=np.uint8)
    for name in catalogue.DATA_SETS["cifar10"].files:
        rows.tofile(cifar / name)
    for name in catalogue.DATA_SETS["mnist"].files:
        shape = (12, 28, 28) if "idx3" in name else (12,)
        header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes()
        (mnist / name).write_bytes(header + rows.ravel()[: int(np.prod(shape))].tobytes())


def spoil(chance: random.Random, content: bytes) -> bytes:
    """Bytes with a few of them changed, cut, doubled, moved or replaced."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        way = chance.randrange(8)
        at = chance.randrange(len(data) + 1)
        upto = min(len(data), at + chance.choice((1, 2, 4, 16, 200)))
        if way == 0:
            del data[at:]
        elif way == 1:
            del data[at:upto]
        elif way == 2:
            data[at:upto] = chance.randbytes(upto - at)
        elif way == 3:
            data[at:at] = chance.randbytes(chance.choice((1, 4, 100)))
        elif way == 4:
            data[at:upto] = b"\xff" * (upto - at)
        elif way == 5:
            data[at:upto] = bytes(upto - at)
        elif way == 6 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif way == 7:
            data[at:at] = data[: chance.choice((3, 50))]
    return bytes(data) if chance.random() > 0.02 else b""


def picture(chance: random.Random) -> Image.Image:
    size = (chance.choice((1, 2, 7, 30, 100)), chance.choice((1, 3, 16, 64)))
    mode = chance.choice(("RGB", "L", "RGBA", "P", "CMYK", "1", "LA", "I;16", "YCbCr", "I", "F"))
    noise = np.random.default_rng(chance.randrange(2**32)).integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    colour = Image.fromarray(noise[..., :3])
    if mode in ("I;16", "I", "F"):
        kind = {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
        return Image.fromarray(noise[..., 0].astype(kind) * kind(200))
    return colour.convert("L").convert(mode) if mode == "LA" else colour.convert(mode)


def image_bytes(chance: random.Random) -> bytes:
    """An image of some format, mode and peculiarity."""
    form = chance.choice(("PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP", "PPM"))
    image, file = picture(chance), io.BytesIO()
    options: dict[str, Any] = {}
    if form == "GIF" and chance.random() < 0.5:
        options = {"save_all": True, "append_images": [picture(chance).convert("P").resize(image.size)] * 3}
    if form == "PNG" and image.mode == "P":
        options["transparency"] = 0
    if form in ("JPEG", "TIFF", "WEBP", "PNG") and chance.random() < 0.4:
        exif = Image.Exif()
        exif[0x0112] = chance.choice((0, 1, 3, 6, 8, 99))
        options["exif"] = exif
    try:
        image.save(file, form, **options)
    except (OSError, ValueError, KeyError):
        image.convert("RGB").save(file, form)
    return file.getvalue()


def bomb(chance: random.Random) -> bytes:
    """A PNG of few bytes that claims a great size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    side = chance.choice((5000, 9000, 30000, 2**16, 2**31 - 1))
    header = struct.pack(">IIBBBBB", side, side, chance.choice((8, 16)), chance.choice((0, 2, 6)), 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(99999)))
        + chunk(b"IEND", b"")
    )


def images(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """A folder with some good and some bad files: shown as a contact sheet, or embedded."""
    place = folder / chance.choice(("photos", "a <b>", "ünï", "-x"))
    place.mkdir()
    for k in range(chance.randrange(1, 7)):
        content = bomb(chance) if chance.random() < 0.1 else image_bytes(chance)
        if chance.random() < 0.6:
            content = spoil(chance, content)
        (place / f"{k}{chance.choice(('.png', '.jpg', '.gif', '.webp', '.tif', '.txt', ''))}").write_bytes(content)
    if chance.random() < 0.5:
        return ["data", "show", f"./{place.name}", "--out", "sheet.png", f"--images={chance.choice((1, 3))}"]
    return ["embed", str(base / "run"), f"./{place.name}", "--workers=0", f"--out=e.{chance.choice(('npz', 'csv'))}"]


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


VALUES = (
    "0",
    "-1",
    "1",
    "2",
    "8",
    "1e-3",
    "1e400",
    ".nan",
    ".inf",
    "-.inf",
    "null",
    "true",
    "[]",
    "{}",
    "[1, [2]]",
    "rbf",
    "''",
    "!!python/object/apply:os.system [id]",
    "!!binary abc",
    "*x",
    "&x 1",
    "1:2:3",
    "0x7fffffffffffffff",
    "99999999999999999999",
    "1970-01-01",
    "~",
    '"\\0"',
    "{a: 1}",
    "a: b",
    "- 1",
    "\t",
    "'",
    "linear",
    "sgd",
    "0.5",
)


def recipes(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """YAML with keys of a recipe and values of any kind."""
    keys = [*readers(Settings), "epocs", "<<", "", "1", "? x", "__class__"]
    lines = [f"{chance.choice(keys)}: {chance.choice(VALUES)}" for _ in range(chance.choice((1, 1, 2, 4)))]
    if chance.random() < 0.1:  # aliases that grow, and depth
        levels = chance.choice((8, 30))
        lines = [f"a0: &a0 {{k: {'[' * chance.choice((1, 2000))}"] if chance.random() < 0.3 else ["a0: &a0 {k: 1}"]
        lines += [f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}], k{k}: [*a{k - 1}, *a{k - 1}]}}" for k in range(1, levels)]
    text = "\n".join(lines).encode()
    (folder / "recipe.yaml").write_bytes(spoil(chance, text) if chance.random() < 0.3 else text)
    return ["train", "--config=recipe.yaml", *SMALL, "--data", str(base / "images"), "--image-size=16", "--dry-run"]


RUN_FILES = (
    "config.yaml",
    "encoder.json",
    "encoder.safetensors",
    "metrics.csv",
    "spectrum.npz",
    "results.json",
    "projector.safetensors",
    "evaluation/scores.npz",
)


def run_folders(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """A run folder with a spoilt, emptied, swapped or missing file."""
    run = folder / "run"
    shutil.copytree(base / "run", run, ignore=shutil.ignore_patterns("tensorboard", "*.ckpt", "figures", "features"))
    victim = run / chance.choice(RUN_FILES)
    way = chance.random()
    if way < 0.1:
        victim.unlink()
    elif way < 0.2:
        shutil.copy(base / "run" / chance.choice(RUN_FILES), victim)
    elif way < 0.45 and victim.suffix == ".json":
        victim.write_text(json.dumps(spoil_json(chance, json.loads(victim.read_text()))))
    elif way < 0.6 and victim.suffix == ".npz":
        spoil_npz(chance, victim)
    else:
        victim.write_bytes(spoil(chance, victim.read_bytes()))
    commands = [
        ["embed", "run", f"{base}/images", "--workers=0", "--out=e.npz"],
        ["report", "run"],
        ["embed", "run", f"{base}/images", "--workers=0", "--out=e.csv", "--projector"],
        ["evaluate", "run", "--robustness-images=0", "--map-images=0"],
        ["replay", "run"],
    ]
    wanted = {
        "encoder.json": (0, 2, 3),
        "encoder.safetensors": (0, 3),
        "projector.safetensors": (2,),
        "config.yaml": (1, 3),
    }
    if victim.name == "results.json" and not victim.exists():
        return commands[3]  # a report would evaluate first, with the map, whose first use compiles for a minute
    return commands[chance.choice(wanted.get(victim.name, (1,)))]


def spoil_json(chance: random.Random, value: Any) -> Any:
    """A value somewhere in the tree is replaced by another kind of value."""
    other = chance.choice((None, -1, 0, 1e308, "x", [], {}, [[]], True, "<script>", 10**30))
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        if chance.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return value | {key: spoil_json(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.7:
        at = chance.randrange(len(value))
        return [*value[:at], spoil_json(chance, value[at]), *value[at + 1 :]]
    return other


def spoil_npz(chance: random.Random, path: Path) -> None:
    """Arrays of other shapes and types, missing or too many, or with a pickle inside."""
    with np.load(path, allow_pickle=False) as content:
        arrays: dict[str, Any] = {key: content[key] for key in content.files}
    key = chance.choice(sorted(arrays))
    value = np.atleast_1d(arrays.pop(key))
    others = [
        None,
        value[:0],
        value.astype("U8"),
        np.full(3, np.nan),
        np.array({"a": 1}, dtype=object),
        np.zeros((2, 2, 2)),
        value.reshape(-1)[:1] if value.size else value,
    ]
    other = chance.choice(others)
    if other is not None:
        arrays[key] = other
    np.savez(path, allow_pickle=True, **arrays)


def checkpoints(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """A last.ckpt with wrong bytes, or of somebody else."""
    run = folder / "run"
    shutil.copytree(base / "run", run, ignore=shutil.ignore_patterns("tensorboard", "evaluation", "figures"))
    last = run / "checkpoints" / "last.ckpt"
    way = chance.random()
    if way < 0.6:
        last.write_bytes(spoil(chance, last.read_bytes()))
    elif way < 0.8:
        content = torch.load(last, weights_only=True)
        key = chance.choice(sorted(content))
        content[key] = chance.choice((None, {}, [], "x", -1, torch.ones(2)))
        torch.save(content, last)
    else:

        class Run:
            def __reduce__(self) -> Any:
                return (print, ("somebody else's code has run: Traceback",))

        torch.save({"state_dict": Run()}, last)
    return ["train", "--resume", "run"]


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


WORDS = (
    "",
    "-",
    "--",
    "-1",
    "0",
    "1e999",
    "nan",
    "x" * 3000,
    "é\u202e",
    "a b",
    "--help=1",
    "[",
    "{}",
    "None",
    "true",
    "../..",
    "/dev/null",
    "/dev/zero",
    "/proc/self/mem",
    ".",
    "mnist-small",
    "\n",
    "%s",
    "$HOME",
    "1,2",
    "99999999999999999999",
)


def flags(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """Commands with flags of their own and of others, and any words as values."""
    names = [
        "--out",
        "--seed",
        "--split",
        "--images",
        "--data",
        "--kernel",
        "--epochs",
        "--resume",
        "--config",
        "--device",
        "--batch-size",
        "--blur",
        "--views",
        "--image-size",
        "--root",
        "--format",
        "--on",
        "--groups",
        "--help",
        "--kernl",
        "--projector",
        "--width",
        "--precision",
        "--strategy",
        "--devices",
        "--queue",
        "--gamma",
        "--degree",
    ]
    quick = [name for name in COMMANDS if not name.startswith(("bench", "demo", "select"))]
    name = chance.choice(quick) if chance.random() < 0.95 else chance.choice(WORDS)
    words = name.split(" ") if name in COMMANDS else [name]
    for _ in range(chance.randrange(4)):
        words.append(chance.choice(WORDS))
        if chance.random() < 0.7:
            words[-1:] = [chance.choice(names), chance.choice(WORDS)]
    # nothing may be fetched, and a training that is understood is only estimated
    words = [word for word in words if word not in catalogue.DATA_SETS or word == "mnist-small"]
    return words + (["--dry-run", *SMALL] if words[0] == "train" and "--resume" not in words else [])


KINDS: dict[str, Maker] = {
    "images": images,
    "binary data": binary,
    "recipes": recipes,
    "run folders": run_folders,
    "flags": flags,
    "images again": images,
    "checkpoints": checkpoints,
    "lists": lists,
    "archives": archives,
    "flags again": flags,
    "sources": sources,
}
