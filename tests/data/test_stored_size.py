"""Views are cropped from images as they are stored, which are decoded once and kept within a limit."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import kvicreg.data.files as files
from kvicreg.data import ArrayData, FileData, ViewConfig, Views, batches, load
from kvicreg.data.cache import DecodedImages
from kvicreg.data.options import DataOptions
from kvicreg.data.pixels import decode_deep


@pytest.fixture
def photographs(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Twelve noisy files of 60 x 48 pixels."""
    for k in range(12):
        Image.fromarray(rng.integers(0, 256, (48, 60, 3), dtype=np.uint8)).save(tmp_path / f"{k:02}.png")
    return tmp_path


def epoch(data: FileData | ArrayData, number: int = 0, workers: int = 0) -> list[Tensor]:
    return [images for images, _, _ in batches(data, 4, seed=0, epoch=number, workers=workers)]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every file that is decoded, in this process."""
    names: list[object] = []

    def spy(content: object, *rest: object) -> Tensor:
        names.append(content)
        return decode_deep(content, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "decode_deep", spy)
    return names


def test_batches_have_more_pixels_than_the_network_sees(photographs: Path) -> None:
    data = load(photographs, image_size=16)
    assert (data.shape, data.for_views().shape) == ((3, 16, 16), (3, 24, 24))
    assert data.fetch(torch.tensor([0])).shape == (1, 3, 16, 16)
    assert epoch(data)[0].shape == (4, 3, 24, 24)
    views = Views.of(data)
    assert views(epoch(data)[0], torch.arange(4), seed=0, epoch=0, view=0).shape == (4, 3, 16, 16)


@pytest.mark.parametrize(("size", "stored"), [(48, 48), (40, 48), (64, 64), (None, 48)])
def test_never_more_than_is_stored(photographs: Path, size: int | None, stored: int) -> None:
    assert load(photographs, image_size=size).for_views().shape[1] == stored


def test_a_small_crop_shows_detail_that_a_shrunk_copy_has_lost(photographs: Path) -> None:
    """Noise of one pixel: shrinking averages it away, a crop of the stored image still has it."""
    data = load(photographs, image_size=16)
    data.oversize = 3.0
    fifth = ViewConfig(crop_area=0.2, crop_area_max=0.2, crop_ratio=1)
    views = Views(fifth, size=16, mean=(0.5,) * 3, std=(0.25,) * 3)
    samples = torch.arange(12)
    from_stored = views(data.for_views().fetch(samples), samples, seed=0, epoch=0, view=0).std()
    from_copy = views(data.fetch(samples), samples, seed=0, epoch=0, view=0).std()
    assert float(from_stored) > 1.5 * float(from_copy)


def test_images_at_their_own_size_are_bit_for_bit_those_of_the_files(photographs: Path) -> None:
    data = load(photographs)
    images = torch.cat(epoch(data))
    order = torch.cat([samples for _, samples, _ in batches(data, 4, seed=0, epoch=0)])
    assert torch.equal(images, data.fetch(order))
    array = ArrayData(images)
    assert array.for_views() is array


def test_arrays_are_cropped_as_stored_too() -> None:
    data = ArrayData(torch.zeros(4, 3, 20, 20, dtype=torch.uint8)).in_shape(16, 3)
    assert (data.for_views().shape, data.in_shape(8, 3).for_views().shape) == ((3, 20, 20), (3, 12, 12))


def test_every_file_is_decoded_once(photographs: Path, decoded: list[object]) -> None:
    data = load(photographs, image_size=16)
    first, second = epoch(data, 0), epoch(data, 0)
    assert len(decoded) == 12
    assert all(map(torch.equal, first, second))
    assert len(epoch(data, 1)) == 3
    assert len(decoded) == 12


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_limit_changes_what_is_kept_and_not_what_is_given(photographs: Path, on_disk: bool, workers: int) -> None:
    plain, kept = (load(photographs, image_size=16) for _ in range(2))
    each = 3 * 24 * 24
    plain.cache_limit, kept.cache_limit = 0, 5 * each + 7
    kept.cache_folder = str(photographs / "cache") if on_disk else None
    assert (plain.cache_bytes, kept.cache_bytes) == (0, 5 * each)
    for number in (0, 1, 1):
        assert all(map(torch.equal, epoch(plain, number), epoch(kept, number, workers)))
    present = kept.for_views()._decoded.has(torch.arange(12))
    assert present.tolist() == [True] * 5 + [False] * 7
    assert not on_disk or list((photographs / "cache").iterdir()) == []  # a file without a name


def test_a_bad_file_is_replaced_by_the_same_image_every_time(photographs: Path) -> None:
    (photographs / "03.png").write_bytes(b"no image")
    data = load(photographs, image_size=16)
    first, second = epoch(data), epoch(data)
    assert all(map(torch.equal, first, second))
    assert data.unreadable == [photographs / "03.png"]
    assert not data.for_views()._decoded.has(torch.tensor([3]))


def test_a_subset_and_another_process_begin_with_none(photographs: Path) -> None:
    data = load(photographs, image_size=16)
    epoch(data)
    large = data.for_views()
    assert large._decoded.has(torch.arange(12)).all()
    assert not pickle.loads(pickle.dumps(large))._decoded.has(torch.arange(12)).any()
    part = data.subset([5, 6, 7, 8])
    images, samples, _ = next(batches(part, 4, seed=0, epoch=0))
    assert torch.equal(images, large.fetch(samples + 5))


def test_the_settings_choose_the_margin_and_the_limit(photographs: Path) -> None:
    options = DataOptions.of(data=str(photographs), image_size=16, oversize=2, cache_mb=1)
    data = options.load()
    assert data.for_views().shape == (3, 32, 32)
    assert data.cache_bytes == 12 * 3 * 32 * 32
    with pytest.raises(ValueError, match=r"oversize.*at least 1"):
        DataOptions.of(oversize=0.5)


def test_a_cache_takes_what_it_says() -> None:
    cache = DecodedImages(100, (3, 8, 8), torch.float32, 10_000)
    assert (cache.capacity, cache.nbytes) == (13, 13 * 3 * 64 * 4)
    cache.put(torch.tensor([12, 13, 0]), torch.arange(3.0)[:, None, None, None].expand(3, 3, 8, 8))
    assert cache.has(torch.tensor([0, 1, 12, 13])).tolist() == [True, False, True, False]
    assert cache.take(torch.tensor([12, 0]))[:, 0, 0, 0].tolist() == [0.0, 2.0]


@pytest.mark.parametrize("mode", ["RGB", "F"])
def test_how_an_image_becomes_a_square(tmp_path: Path, mode: str) -> None:
    """An image twice as wide as high, with a white left half."""
    image = Image.new(mode, (16, 8), 0)
    image.paste((255, 255, 255) if mode == "RGB" else 255.0, (0, 0, 8, 8))
    image.save(tmp_path / "a.tif")

    def shown(fit: str) -> Tensor:
        data = load(tmp_path, image_size=8, fit=fit, **({"intensity": "0:255"} if mode == "F" else {}))
        return data.fetch(torch.tensor([0]))[0, 0].float().round()

    half = torch.tensor([255.0] * 4 + [0.0] * 4)
    assert torch.equal(shown("crop")[4].gt(128), half.gt(0))
    assert torch.equal(shown("stretch")[0].gt(128), half.gt(0))
    box = shown("letterbox")
    assert float(box[:2].abs().max()) == float(box[6:].abs().max()) == 0
    assert torch.equal(box[3].gt(128), half.gt(0))
    with pytest.raises(ValueError, match="fit"):
        load(tmp_path, fit="squeeze")
