"""Bad files are told by kind, lists name files where others find them, and nothing is deleted."""

import csv
import shutil

import numpy as np
import pytest
import torch
from photographs import draw
from PIL import Image, ImageFilter

from kvicreg.cli import main
from kvicreg.data import ArrayData, load
from kvicreg.explore import collect, file_problems


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def spoilt(photos):
    folder = photos / "green"
    (folder / "bad.png").write_bytes(b"\x89PNG no more")
    Image.new("RGB", (48, 48), "grey").save(folder / "blank.png")
    draw(0, 77, side=200).filter(ImageFilter.GaussianBlur(5)).save(folder / "blurred.png")
    draw(0, 50, side=20).save(folder / "tiny.png")
    shutil.copy(folder / "001.png", folder / "copy.png")
    return photos


def test_each_problem_is_told_and_sound_files_are_not(spoilt):
    data = load(spoilt)
    told_of = {(data.paths[p.index].name, p.kind) for p in file_problems(data)}
    names = ("bad", "unreadable"), ("blank", "blank"), ("blurred", "blurred"), ("tiny", "tiny"), ("copy", "copy")
    assert told_of == {(f"{name}.png", kind) for name, kind in names}
    assert file_problems(data, tiny=0, blank=0, blurred=0)[-1].kind == "copy"


def test_arrays_have_problems_too():
    images = torch.randint(0, 255, (6, 1, 40, 40), dtype=torch.uint8)
    images[2], images[4] = 7, images[1]
    problems = file_problems(ArrayData(images))
    assert [(p.index, p.kind) for p in problems] == [(2, "blank"), (4, "copy")]
    assert problems[1].detail == "of image 1"


def test_commands_write_lists_that_train_and_collect_read(spoilt, tmp_path, capsys):
    common = [str(spoilt), "--encoder", "pixels", "--cache", str(tmp_path / "cache"), "--workers", "0"]
    out = tmp_path / "lists"
    image = str(spoilt / "green" / "001.png")
    assert main(["search", *common, "--image", image, "--count", "3", "--out", f"{out}/search.csv"]) == 0
    assert main(["duplicates", *common, "--threshold", "0.95", "--out", f"{out}/duplicates.csv"]) == 0
    assert main(["outliers", *common, "--count", "4", "--out", f"{out}/outliers.csv"]) == 0
    assert main(["coreset", *common, "--keep", "6", "--out", f"{out}/coreset.csv"]) == 0
    assert main(["problems", str(spoilt), "--out", f"{out}/problems.csv"]) == 0
    last_lines = capsys.readouterr().out
    assert "5 problems of 45 images" in last_lines
    assert f"6 of 45 images: {out}/coreset.csv" in last_lines
    assert [row["image"] for row in rows_of(out / "duplicates.csv")] == [
        "../photos/green/001.png",
        "../photos/green/copy.png",
    ]
    assert len(load(out / "coreset.csv")) == 6
    assert main(["collect", f"{out}/duplicates.csv", "--to", str(tmp_path / "copies")]) == 0
    assert sorted(p.name for p in (tmp_path / "copies" / "1").iterdir()) == ["001.png", "copy.png"]
    assert (spoilt / "green" / "copy.png").is_file()


def test_leaks_between_two_sources_are_listed(photos, tmp_path):
    (tmp_path / "test").mkdir()
    draw(1, 7).save(tmp_path / "test" / "leak.png")
    command = ["duplicates", str(photos), "--encoder", "pixels", "--cache", str(tmp_path / "cache"), "--workers", "0"]
    out = tmp_path / "leaks.csv"
    assert main([*command, "--against", str(tmp_path / "test"), "--threshold", "0.99", "--out", str(out)]) == 0
    (row,) = rows_of(out)
    assert row["image"] == "photos/green/007.png"
    assert row["other"].endswith("test/leak.png")


def test_wrong_places_are_wrong_usage(capsys):
    assert main(["search", "runs/first"]) == 2
    assert "expected RUN SOURCE, or SOURCE with --encoder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["search", "--image", "no.jpg"], "no.jpg is not a file"),
        (["search"], "expected an image or at least one positive example, got none"),
        (["search", "--positive", "40"], "positive: expected numbers of images from 0 to 39, got 40"),
        (["coreset", "--keep", "41"], "keep must be from 1 to 40, the number of readable images, got 41"),
        (["duplicates", "--against", "nowhere"], "neither a data set's name nor a folder"),
        (["explore", "--table", "no.csv"], "No such file or directory: no.csv"),
    ],
)
def test_what_is_wrong_is_told_before_images_are_embedded(photos, tmp_path, capsys, argv, sentence):
    command, *flags = argv
    assert main([command, str(photos), "--encoder", "pixels", "--cache", str(tmp_path / "cache"), *flags]) == 1
    message = capsys.readouterr().err
    assert sentence in message
    assert message.startswith(f"kvicreg {command}: ")  # no empty line, and no progress
    assert not (tmp_path / "cache").exists()


def test_links_lead_to_the_files_and_equal_names_are_numbered(photos, tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("image\nphotos/green/001.png\nphotos/red <b>/001.png\nphotos/gone.png\n")
    count, absent = collect(table, tmp_path / "links", link=True)
    assert (count, absent) == (2, ["photos/gone.png"])
    assert sorted(p.name for p in (tmp_path / "links").iterdir()) == ["001-2.png", "001.png"]
    assert (tmp_path / "links" / "001-2.png").resolve() == photos / "red <b>" / "001.png"


def test_a_label_cannot_lead_out_of_the_folder(photos, tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("image,label\nphotos/green/001.png,../../away\nphotos/green/002.png,..\n")
    collect(table, tmp_path / "copies")
    inside = [p for p in tmp_path.rglob("00[12].png") if photos not in p.parents]
    assert len(inside) == 2
    assert all((tmp_path / "copies").resolve() in p.resolve().parents for p in inside)


def test_a_folder_with_content_is_never_written_to(photos, tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("image\nphotos/green/001.png\n")
    with pytest.raises(ValueError, match="is there and not empty"):
        collect(table, photos)
    (tmp_path / "arrays.csv").write_text("index\n3\n")
    with pytest.raises(ValueError, match="expected a column 'image'"):
        collect(tmp_path / "arrays.csv", tmp_path / "copies")


def test_numbers_name_images_that_are_no_files(tmp_path):
    np.save(tmp_path / "images.npy", np.random.default_rng(0).integers(0, 255, (30, 16, 16), dtype=np.uint8))
    command = [str(tmp_path / "images.npy"), "--encoder", "pixels", "--cache", str(tmp_path / "cache")]
    assert main(["coreset", *command, "--keep", "3", "--out", str(tmp_path / "coreset.csv")]) == 0
    assert all(0 <= int(row["index"]) < 30 for row in rows_of(tmp_path / "coreset.csv"))
