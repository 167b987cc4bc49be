"""Arrays from Python: any type, layout and labels, and nothing is read that is not asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from kvicreg.data import ArrayData, load


@pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.float64, np.int32])
def test_numpy_arrays_of_any_type(rng: np.random.Generator, dtype: type) -> None:
    values = (rng.random((6, 2, 8, 8)) * 1000).astype(dtype)
    data = ArrayData(values)
    images = data.fetch(torch.tensor([5, 1]))
    low, high = values.min((0, 2, 3)), values.max((0, 2, 3))
    expected = (values - low[:, None, None]) / (high - low)[:, None, None] * 255.0
    np.testing.assert_allclose(images.numpy(), expected[[5, 1]], atol=1e-2)
    part = data.subset([4, 1])
    assert torch.equal(part.fetch(torch.tensor([1])), images[1:])
    assert part.intensity == data.intensity


def test_layouts_of_arrays(rng: np.random.Generator) -> None:
    grey, last = rng.integers(0, 256, (5, 12, 12), dtype=np.uint8), rng.integers(0, 256, (5, 12, 12, 3), dtype=np.uint8)
    assert torch.equal(ArrayData(grey).fetch(torch.arange(5))[:, 0], torch.from_numpy(grey))
    assert torch.equal(ArrayData(last).fetch(torch.arange(5)), torch.from_numpy(last).permute(0, 3, 1, 2))
    wide = ArrayData(rng.integers(0, 256, (5, 12, 20, 3), dtype=np.uint8))
    assert wide.shape == (3, 12, 12)
    assert wide.notes == ("the images have 12x20 pixels: the square in their centre is taken",)


def test_nan_in_an_array_is_refused(rng: np.random.Generator) -> None:
    values = rng.random((6, 1, 8, 8))
    values[4, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match=r"images of 'array': an image has values that are not finite"):
        ArrayData(values)
    with pytest.raises(ValueError, match=r"image 4 has values that are not finite"):
        ArrayData(values, intensity="0:1").fetch(torch.arange(6))


@pytest.mark.parametrize(
    ("labels", "numbers", "names"),
    [
        ([3888257, 5, 5], [1, 0, 0], ["5", "3888257"]),
        (["b", "a", "b"], [1, 0, 1], ["a", "b"]),
        (np.array(["10", "9", "9"]), [1, 0, 0], ["9", "10"]),
        (torch.tensor([-1, 2, 2]), [0, 1, 1], ["-1", "2"]),
        (np.array([1.0, 0.0, 1.0]), [1, 0, 1], ["0", "1"]),
        ([True, False, True], [1, 0, 1], ["False", "True"]),
    ],
)
def test_labels_of_any_kind(labels: object, numbers: list[int], names: list[str]) -> None:
    data = ArrayData(np.zeros((3, 1, 4, 4), np.uint8), labels)
    assert data.labels is not None
    assert (data.labels.tolist(), data.class_names) == (numbers, names)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5, 1, 2], "expected 3 whole numbers or names, got float64"),
        (["a", None, "b"], "expected a label for every image or for none, got None"),
        ([[1], [2], [3]], r"expected one for each image, got an array of shape \(3, 1\)"),
        ([1, 2], "labels: expected 3 whole numbers or names, got 2"),
    ],
)
def test_wrong_labels_are_explained(labels: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ArrayData(np.zeros((3, 1, 4, 4), np.uint8), labels)


def test_names_of_labels_are_looked_up_among_those_given() -> None:
    data = ArrayData(np.zeros((2, 1, 4, 4), np.uint8), ["b", "b"], class_names=["a", "b"])
    assert data.labels is not None
    assert data.labels.tolist() == [1, 1]
    with pytest.raises(ValueError, match="expected one of the 2 classes .* got 'c'"):
        ArrayData(np.zeros((1, 1, 4, 4), np.uint8), ["c"], class_names=["a", "b"])


def test_a_memory_mapped_array_is_not_read_by_its_subsets(tmp_path: Path, rng: np.random.Generator) -> None:
    np.save(tmp_path / "x.npy", rng.integers(0, 4096, (20, 1, 8, 8), dtype=np.uint16))
    data = load(tmp_path / "x.npy")
    assert isinstance(data, ArrayData)
    part = data.subset([3, 4])
    assert isinstance(part, ArrayData)
    assert np.shares_memory(np.asarray(part.images), np.asarray(data.images))
    assert torch.equal(part.fetch(torch.tensor([0])), data.fetch(torch.tensor([3])))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_an_array_of_no_images_is_read_as_such(kind):
    data = ArrayData(np.zeros((0, 1, 4, 4), kind))
    assert (len(data), data.shape) == (0, (1, 4, 4))
