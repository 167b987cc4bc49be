"""Arrays in files and in memory: names of members, layouts, labels, sizes; and what is refused, in whole sentences."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from kvicreg.data import ArrayData, Intensity, load
from kvicreg.data.arrays import resized
from kvicreg.data.labels import number_labels


def images(count: int, start: int = 0) -> np.ndarray:
    return (np.arange(start, start + count, dtype=np.uint8)[:, None, None]) * np.ones((1, 4, 4), np.uint8)


def levels(data) -> list[int]:
    return data.fetch(torch.arange(len(data)))[:, 0, 0, 0].tolist()


@pytest.mark.parametrize(
    ("names", "split"),
    [
        (("images", "labels"), "train"), (("X", "Y"), "train"), (("data", "targets"), "train"),
        (("image", "label"), "train"),
        (("train_images", "train_labels"), "train"), (("x_train", "y_train"), "train"), (("X_Test", "y_test"), "test"),
        (("val_images", "val_labels"), "test"), (("test_images", "test_labels"), "val"),
        (("unlabelled_x", "unlabelled_y"), "unlabelled"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["npz", "pt"])
def test_members_by_their_usual_names(tmp_path: Path, kind: str, names: tuple[str, str], split: str) -> None:
    members = {names[0]: images(3), names[1]: np.array([5, 9, 5])}
    path = tmp_path / f"a.{kind}"
    if kind == "npz":
        np.savez(path, **members)
    else:
        torch.save({name: torch.from_numpy(value) for name, value in members.items()}, path)
    data = load(path, split)
    assert (levels(data), data.labels.tolist(), data.class_names) == ([0, 1, 2], [0, 1, 0], ["5", "9"])
    assert (data.name, data.split) == ("a", split)


def test_the_labels_of_splits_are_numbered_together(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=images(3), y_train=["a", "b", "c"], x_test=images(2, 7), y_test=["c", "b"])
    test = load(tmp_path / "a.npz", "val")
    assert (levels(test), test.labels.tolist(), test.class_names) == ([7, 8], [2, 1], ["a", "b", "c"])


def test_val_and_test_each_take_their_own_first(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=images(1), test_images=images(2), val_images=images(3))
    assert [len(load(tmp_path / "a.npz", split)) for split in ("train", "test", "val")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("content", "count", "labels"),
    [
        (torch.from_numpy(images(3)), 3, None),
        ((torch.from_numpy(images(2)), torch.tensor([4, 2])), 2, [1, 0]),
        ([torch.from_numpy(images(2)), torch.tensor([4, 2])], 2, [1, 0]),
        ({"whatever": torch.from_numpy(images(2))}, 2, None),
    ],
)
def test_tensors_in_a_file(tmp_path: Path, content: object, count: int, labels: list[int] | None) -> None:
    torch.save(content, tmp_path / "a.pth")
    data = load(tmp_path / "a.pth")
    assert len(data) == count
    assert (None if data.labels is None else data.labels.tolist()) == labels


@pytest.mark.parametrize("content", [[torch.zeros(1)] * 3, {1: torch.zeros(1)}, 5])
def test_other_things_in_a_tensor_file_are_told(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "a.pt")
    message = f"{tmp_path}/a.pt: expected tensors: images, (images, labels) or a dictionary, got {type(content)}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        load(tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes(b"no tensors")
    with pytest.raises(
        ValueError, match=rf"^{tmp_path}/a\.pt: expected tensors that torch\.save wrote, nothing else \("
    ):
        load(tmp_path / "a.pt")


def test_a_split_that_a_file_does_not_have_is_told_with_what_it_has(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=images(1), more=images(1))
    message = "expected an array called images or test_images for the split 'test'; it has x_train, more"
    with pytest.raises(ValueError, match=f"^{tmp_path}/a.npz: {message}$"):
        load(tmp_path / "a.npz", "test")
    np.savez(tmp_path / "b.npz", p=images(1), q=images(1))
    with pytest.raises(ValueError, match="expected an array called images for the split 'train'; it has p, q$"):
        load(tmp_path / "b.npz")
    np.save(tmp_path / "c.npy", images(2))
    with pytest.raises(
        ValueError, match=r"^split: a \.npy array has only 'train'; give the 'test' images a file of their"
    ):
        load(tmp_path / "c.npy", "test")
    np.save(tmp_path / "c_labels.npy", [1])
    with pytest.raises(ValueError, match=rf"^{tmp_path}/c\.npy: labels: expected 2 whole numbers or names, got 1$"):
        load(tmp_path / "c.npy")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 3, 4, 4), (3, 4, 4)), ((2, 4, 4, 3), (3, 4, 4)), ((2, 5, 5), (1, 5, 5)), ((2, 6, 9, 3), (3, 6, 6)),
        ((2, 3, 6, 9), (3, 6, 6)), ((2, 8, 5, 2), (2, 5, 5)), ((2, 4, 4, 4), (4, 4, 4)), ((2, 32, 4, 4), (32, 4, 4)),
        ((2, 1, 4, 8), (1, 4, 4)), ((2, 5, 5, 1), (1, 5, 5)),
    ],
)  # fmt: skip
def test_which_axis_has_the_channels(shape: tuple, expected: tuple) -> None:
    for dtype in (np.uint8, np.float32):
        assert ArrayData(np.zeros(shape, dtype)).shape == expected
    assert ArrayData(torch.zeros(shape, dtype=torch.uint8)).shape == expected


def test_the_centre_of_wide_and_high_images_is_taken() -> None:
    wide = np.arange(9, dtype=np.uint8)[None, None, None] * np.ones((1, 1, 4, 1), np.uint8)
    data = ArrayData(wide)
    assert data.fetch(torch.tensor([0]))[0, 0, 0].tolist() == [2, 3, 4, 5]
    high = ArrayData(wide.swapaxes(2, 3))
    assert high.fetch(torch.tensor([0]))[0, 0, :, 0].tolist() == [2, 3, 4, 5]
    assert high.notes == ("the images have 9x4 pixels: the square in their centre is taken",)


@pytest.mark.parametrize(
    "wrong", [np.zeros((2, 4), np.uint8), np.zeros((2, 0, 4, 4)), np.zeros((2, 3, 4, 4, 1)), np.array([["a"]])]
)
def test_what_is_no_array_of_images_is_told(wrong: np.ndarray) -> None:
    message = (
        f"images: expected a tensor or array of numbers (n, channels, size, size), got {wrong.dtype} {wrong.shape}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ArrayData(wrong)


def test_tensors_of_eight_bits_are_not_copied_and_others_have_a_range() -> None:
    tensor = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    assert ArrayData(tensor).images.data_ptr() == tensor.data_ptr()
    half = ArrayData(torch.tensor([0.0, 2.0], dtype=torch.bfloat16)[:, None, None, None].expand(2, 1, 4, 4))
    assert half.intensity == Intensity((0.0,), (2.0,))
    assert half.notes == ("values of type float32: intensity 0:2 is black to white",)
    assert levels(half) == [0, 255]


def test_of_many_values_evenly_spaced_images_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvicreg.data.arrays._MEASURED", 16 * 100)
    values = np.arange(300, dtype=np.float32)[:, None, None, None] * np.ones((1, 1, 4, 4), np.float32)
    assert ArrayData(values).intensity == Intensity((0.0,), (297.0,))  # every third one
    assert ArrayData(values, intensity="5:6").intensity == Intensity((5.0,), (6.0,))
    assert ArrayData(values, intensity=Intensity((1.0,), (2.0,))).intensity == Intensity((1.0,), (2.0,))


def test_channels_and_size_are_brought_about_when_images_are_fetched() -> None:
    colour = torch.tensor([10, 20, 30], dtype=torch.uint8)[None, :, None, None].expand(2, 3, 4, 4)
    assert resized(colour, 3, 4) is colour
    assert resized(colour, 1, 4).unique().tolist() == [18]
    assert float(resized(colour.float(), 1, 4).mean()) == pytest.approx(18.15)
    assert resized(colour[:, :1], 5, 2).shape == (2, 5, 2, 2)
    data = ArrayData(colour)
    assert (data.in_shape(None, 1).shape, data.in_shape(8, None).shape) == ((1, 4, 4), (3, 8, 8))
    for channels in (2, 4):
        with pytest.raises(ValueError, match=f"^channels: the images of 'array' have 3, expected {channels}$"):
            data.in_shape(None, channels)


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 3], ["a", "b"], "here: expected 0 to 1, got 0 to 3"),
        ([-1, 1], ["a", "b"], "here: expected 0 to 1, got -1 to 1"),
        (["z"], list("abcdefg"), "here: expected one of the 7 classes ('a', 'b', 'c', 'd', 'e', ...), got 'z'"),
        (["a", None], None, "here: expected a label for every image or for none, got None for some"),
        ([1.5], None, "here: expected 1 whole numbers or names, got float64"),
    ],
)
def test_labels_that_are_refused(labels: list, names: list[str] | None, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        number_labels(labels, names, source="here")


def test_labels_that_are_numbered() -> None:
    numbers, classes = number_labels([b"x", b"10", b"9"])
    assert (numbers.tolist(), classes, numbers.dtype) == ([2, 1, 0], ["9", "10", "x"], torch.int64)
    assert number_labels([1, 0], ["a", "b"])[0].tolist() == [1, 0]
    assert number_labels(np.array([], np.int64), ["a"])[1] == ["a"]
