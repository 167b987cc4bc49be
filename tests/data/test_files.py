"""Images decoded from files: every kind of file, and bad ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.data import FileData, batches, in_order
from kvicreg.data.pixels import decode
from kvicreg.data.survey import survey

Writer = Callable[..., list[Path]]


def test_the_centre_square_is_resized_as_pillow_does(tmp_path: Path, rng: np.random.Generator) -> None:
    pixels = rng.integers(0, 256, (30, 50, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    centre = Image.fromarray(pixels).resize((12, 12), Image.Resampling.BILINEAR, box=(10, 0, 40, 30))
    ours = decode(tmp_path / "a.png", 3, 12).permute(1, 2, 0).numpy()
    assert np.abs(ours.astype(int) - np.asarray(centre)).max() <= 1


def test_a_picture_taken_sideways_is_turned_upright(tmp_path: Path) -> None:
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:8] = 255  # bright above
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees clockwise to see it upright
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=100)
    upright = decode(tmp_path / "a.jpg", 1, 16)[0].float()
    assert upright[:, 9:].mean() > 250  # bright on the right
    assert upright[:, :7].mean() < 5


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "CMYK", "P", "1", "I;16"])
def test_every_mode_becomes_three_channels(tmp_path: Path, mode: str) -> None:
    grey = np.linspace(0, 255, 64).astype(np.uint8).reshape(8, 8)
    if mode == "I;16":
        image = Image.fromarray(grey.astype(np.uint16) * 257)
    else:
        image = (
            Image.fromarray(grey).convert(mode) if mode == "P" else Image.fromarray(grey).convert("RGB").convert(mode)
        )
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    image.save(path)
    pixels = decode(path, 3, 8)
    assert pixels.dtype == torch.uint8
    assert pixels.shape == (3, 8, 8)
    tolerance = 255 if mode == "1" else 1
    assert (pixels[0].int() - torch.from_numpy(grey).int()).abs().max() <= tolerance
    assert decode(path, 1, 8).shape == (1, 8, 8)


def make_bad(path: Path, kind: str) -> None:
    if kind == "missing":
        path.unlink()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("this is no image")
    else:
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path, "JPEG")
        path.write_bytes(path.read_bytes()[:1500])


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "truncated"])
def test_a_bad_file_is_replaced_by_another_and_named(tmp_path: Path, write_images: Writer, kind: str) -> None:
    paths = write_images(tmp_path, 10)
    make_bad(paths[3], kind)
    data = FileData(paths, torch.arange(10), size=8)
    for images, samples, labels in in_order(data, 4):
        assert labels is not None
        assert torch.equal(labels, samples)
        assert torch.equal(images[:, 0, 0, 0].long(), samples)  # file k is filled with k: label and image agree
    assert data.unreadable == [paths[3]]


def test_the_replacement_is_always_the_same(tmp_path: Path, write_images: Writer) -> None:
    paths = write_images(tmp_path, 20)
    make_bad(paths[5], "text")
    first, again = (FileData(paths, size=8).fetch(torch.tensor([5])) for _ in range(2))
    assert torch.equal(first, again)


def test_mostly_bad_files_are_fatal_and_named(tmp_path: Path, write_images: Writer) -> None:
    paths = write_images(tmp_path, 10)
    for path in paths[:6]:
        make_bad(path, "text")
    data = FileData(paths, size=8)
    with pytest.raises(ValueError, match=r"most of its 10 images can't be read .*000\.png"):
        list(in_order(data, 10))


def test_workers_give_the_same_batches_and_report_bad_files(tmp_path: Path, write_images: Writer) -> None:
    paths = write_images(tmp_path, 30)
    make_bad(paths[11], "truncated")
    alone, helped = FileData(paths, size=8), FileData(paths, size=8)
    here = list(batches(alone, 6, seed=0, epoch=1))
    there = list(batches(helped, 6, seed=0, epoch=1, workers=2))
    assert len(here) == len(there) == 5
    for (a, i, _), (b, j, _) in zip(here, there, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(i, j)
    assert helped.unreadable == alone.unreadable == [paths[11]]


def test_a_subset_keeps_paths_labels_and_size(tmp_path: Path, write_images: Writer) -> None:
    data = FileData(write_images(tmp_path, 6), torch.arange(6), size=8, channels=1, class_names=list("abcdef"))
    part = data.subset([4, 1])
    assert part.paths == [data.paths[4], data.paths[1]]
    assert part.labels is not None
    assert part.labels.tolist() == [4, 1]
    assert part.shape == (1, 8, 8)
    assert part.class_names == list("abcdef")


def test_a_survey_looks_at_evenly_spaced_images(tmp_path: Path, write_images: Writer) -> None:
    paths = write_images(tmp_path / "a", 2, (9, 12)) + write_images(tmp_path / "b", 1, (30, 40))
    assert survey(paths) == (3, 9, 3, 0, 0, 0, 1)  # the median shorter side is 9
    looked: list[str] = []
    survey([Path(str(k)) for k in range(200)], lambda path: looked.append(path.name) or paths[0])
    assert looked == [str(k) for k in range(0, 200, 3)]
    assert survey([tmp_path / "none.png"]) is None


def test_no_files_and_wrong_channels_are_refused(tmp_path: Path, write_images: Writer) -> None:
    with pytest.raises(ValueError, match="^mine: there is no image in it$"):
        FileData([], name="mine")
    paths = write_images(tmp_path, 2)
    with pytest.raises(ValueError, match="^files: there is no image in it$"):
        FileData(paths).subset([])
    with pytest.raises(ValueError, match="^channels: expected 1 to 32, got 0$"):
        FileData(paths, channels=0)
    missing = FileData([tmp_path / "none.png"])
    assert (missing.shape, missing.intensity, missing.notes) == ((3, 224, 224), None, ())


def test_half_of_the_files_may_be_bad_and_their_faults_are_short(tmp_path: Path, write_images: Writer) -> None:
    paths = write_images(tmp_path, 4)

    def read(path: Path) -> Path:
        if path in paths[:2]:
            raise ValueError("x  y\n" * 100 if path == paths[0] else "")
        return path

    data = FileData(paths, size=8, read=read)
    data.fetch(torch.arange(4))
    assert data.faults == {paths[0]: ("x y " * 100)[:200], paths[1]: "ValueError"}
