"""`kvicreg data list | get | show`, as the command line calls them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.data.commands import contact_sheet, get_data, list_data, show_data
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
