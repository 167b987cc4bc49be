"""`kvicreg data list | get | show`, as the command line calls them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from rich.progress import MofNCompleteColumn

from kvicreg.data import Views, commands, load
from kvicreg.data.commands import bars, contact_sheet, get_data, list_data, pack_data, show_data
from kvicreg.data.packing import Packed
from kvicreg.data.presets import ViewOptions


def test_list_tells_what_is_here(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "cifar10").mkdir()
    assert str(tmp_path) in list_data(tmp_path)
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "built in" in lines["mnist-small"]
    assert lines["cifar10"].split()[1] == "yes"
    assert lines["stl10"].split()[1] == "no"
    assert "by hand" in lines["imagenet100"]
    assert "CC BY-SA 3.0" in lines["mnist"]


def test_get_refuses_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no data set is called 'nothing'"):
        get_data("nothing", tmp_path)


def test_show_writes_images_beside_their_views(tmp_path: Path) -> None:
    out = tmp_path / "new" / "sheet.png"
    last_line = show_data("mnist-small", out, images=6)
    assert str(out) in last_line
    assert "6 images" in last_line
    pixels = np.asarray(Image.open(out).convert("L"))
    assert pixels.std() > 50


def test_show_takes_a_folder_and_strengths(tmp_path: Path, write_images: Callable[..., list[Path]]) -> None:
    write_images(tmp_path / "mine", 3)
    show_data(str(tmp_path / "mine"), tmp_path / "sheet.png", views=ViewOptions.of(blur=0))


def test_the_sheet_shows_every_image_in_its_place() -> None:
    rows = torch.zeros(5, 3, 1, 8, 8, dtype=torch.uint8)
    rows[4, 2] = 200
    sheet = np.asarray(contact_sheet(rows, tile=8, columns=4))
    assert (sheet == 200).all(-1).sum() == 64
    assert (sheet == 0).all(-1).sum() == 14 * 64


def test_the_list_has_headings_and_says_where_data_lives(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "imagenet").mkdir()
    assert list_data(tmp_path) == f"Data sets live in {tmp_path}; fetch one with: kvicreg data get NAME"
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.split() == ["name", "here", "MB", "licence", "training", "+", "test", "(+", "unlabelled)"]
    here = {line.split()[0]: line[first.index("here") :].split("  ")[0].strip() for line in lines}
    assert here["digits"] == here["mnist-small"] == "built in"
    assert (here["imagenet100"], here["tiny-imagenet"], here["stl10"]) == ("yes", "no", "no")
    end = first.index(" MB") + 3
    sizes = {line.split()[0]: line[:end].split()[-1] for line in lines}
    assert sizes["stl10"] == f"{commands.DATA_SETS['stl10'].megabytes:,}"


def test_get_tells_its_progress_beside_its_answer(tmp_path: Path, monkeypatch, capsys) -> None:
    def get(name: str, root: Path | None, *, say, progress) -> Path:
        say(f"{name}: from {'somewhere ' * 20}...")
        progress("a.zip", 1, 2)
        return root / name

    monkeypatch.setattr(commands, "get", get)
    assert get_data("stl10", tmp_path) == f"stl10: verified, in {tmp_path / 'stl10'}"
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"stl10: from {'somewhere ' * 20}...\n")


def test_bars_are_for_terminals_and_have_a_line_for_each_name() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    with bars(console, MofNCompleteColumn()) as progress:
        for done in (1, 3):
            progress("train", done, 7)
        progress("test", 2, 5)
        console.print("here")
    shown = text.getvalue()
    assert "train" in shown
    assert "3/7" in shown
    assert "2/5" in shown
    quiet = io.StringIO()
    with bars(Console(file=quiet), MofNCompleteColumn()) as progress:
        progress("train", 1, None)
    assert quiet.getvalue().strip() == ""


@pytest.mark.parametrize("left_out", [[], ["a.png (cut)", "b.png (cut)"]])
def test_pack_tells_what_was_written(tmp_path: Path, monkeypatch, left_out: list[str]) -> None:
    given = {}

    def pack(source: str, out: Path, *, progress, **rest) -> Packed:
        progress("train", 1, 1200)
        given.update(rest, source=source, out=out)
        return Packed({"train": 1200, "test": 30}, 1001, 2_345_600_000, left_out)

    monkeypatch.setattr("kvicreg.data.packing.pack", pack)
    words = pack_data("photos", tmp_path, 64, "root", {"class_level": "2"}).splitlines()
    assert given == {"source": "photos", "out": tmp_path, "shard_mb": 64, "root": "root", "class_level": "2"}
    assert words[-2:] == [
        f"1,200 train, 30 test images in 1,001 shards of 2,346 MB: {tmp_path}",
        f"Next: kvicreg train --data {tmp_path}",
    ]
    assert words[:-2] == (["Left out: 2 images that could not be read, such as a.png (cut)"] if left_out else [])
    pack_data("photos", tmp_path)
    assert (given["shard_mb"], given["root"]) == (256, None)


def test_show_tells_of_the_images_and_what_their_views_leave_out(tmp_path: Path, write_images) -> None:
    write_images(tmp_path / "mine" / "a", 5)
    out = tmp_path / "sheet.png"
    classes, last = show_data(str(tmp_path / "mine"), out, images=3).splitlines()
    assert classes == "1 class, the folders of level 1: a (--class-level chooses another)"
    assert last == f"3 images of FileData('mine', 'train': 5 images 3x16x16, 1 class) and their two views: {out}"
    grey = show_data(str(tmp_path / "mine"), out, channels=1, reading={"class_level": "none"}).splitlines()
    assert grey[1:] == [
        "views without saturation, hue, grayscale",
        f"5 images of FileData('mine', 'train': 5 images 1x16x16, unlabelled) and their two views: {out}",
    ]
    with pytest.raises(ValueError, match="^images: expected at least 1, got 0$"):
        show_data("mnist-small", out, images=0)
    with pytest.raises(
        ValueError, match=r"^out: expected a picture's ending such as \.png or \.jpg, got 'sheet\.txt'$"
    ):
        show_data(str(tmp_path / "mine"), Path("sheet.txt"))


def test_the_sheet_has_evenly_spaced_images_each_with_its_two_views(tmp_path: Path, monkeypatch, write_images) -> None:
    for split in ("train", "test"):
        write_images(tmp_path / split / "a", 9, (24, 24))
    rows = []
    monkeypatch.setattr(commands, "contact_sheet", lambda given: rows.append(given) or contact_sheet(given))
    options = ViewOptions.of(views="none", jitter=1, brightness=0.5)
    show_data(str(tmp_path), tmp_path / "a" / "b" / "sheet.JPG", "test", 5, image_size=12, seed=4, views=options)
    data = load(tmp_path, "test", image_size=12)
    chosen = torch.tensor([0, 2, 4, 6, 8])
    views = Views.of(data, options.config("x", 12))
    large = data.for_views().fetch(chosen)
    two = [views.pixels(views(large, torch.arange(5), seed=4, epoch=0, view=view)) for view in (0, 1)]
    assert torch.equal(rows[0], torch.stack([data.fetch(chosen), *two], 1))
    with Image.open(tmp_path / "a" / "b" / "sheet.JPG") as picture:
        assert picture.format == "JPEG"


@pytest.mark.parametrize(("size", "zoom", "gap"), [(120, 1, 5), (30, 3, 4), (96, 1, 4)])
def test_every_pixel_of_a_sheet(size: int, zoom: int, gap: int) -> None:
    rows = torch.randint(0, 200, (5, 2, 3, size, size), dtype=torch.uint8)
    side = size * zoom
    width, height = 2 * side + 2 + 3 * gap, side + gap
    expected = np.full((2 * height + gap, 4 * width - gap, 3), 255, np.uint8)
    for i in range(5):
        for j in range(2):
            x, y = gap + i % 4 * width + j * (side + 2), gap + i // 4 * height
            tile = rows[i, j].permute(1, 2, 0).numpy().repeat(zoom, 0).repeat(zoom, 1)
            expected[y : y + side, x : x + side] = tile
    assert np.array_equal(np.asarray(contact_sheet(rows)), expected)
