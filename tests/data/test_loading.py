"""`load`: every name, folders, lists, and mistakes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.data import ArrayData, FileData, load, loading
from kvicreg.data.catalogue import DATA_SETS, data_root
from kvicreg.data.loading import source_name

Writer = Callable[..., list[Path]]


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def test_the_embedded_images_are_balanced_and_real() -> None:
    train, test = load("mnist-small"), load("mnist-small", "test")
    assert (len(train), len(test), train.shape, train.in_memory) == (8000, 2000, (1, 28, 28), True)
    assert train.labels is not None
    assert test.labels is not None
    assert train.labels.bincount().tolist() == [800] * 10
    assert test.labels.bincount().tolist() == [200] * 10
    nearest = torch.cdist(
        test.fetch(torch.arange(300)).flatten(1).float(), train.fetch(torch.arange(8000)).flatten(1).float()
    )
    accuracy = (train.labels[nearest.argmin(1)] == test.labels[:300]).float().mean()
    assert accuracy > 0.9  # digits, and the labels are theirs


def test_digits_come_from_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    train, test = load("digits"), load("digits", "test")
    raw = load_digits()
    images = torch.cat((train.fetch(torch.arange(len(train))), test.fetch(torch.arange(len(test)))))
    assert np.abs(images[:, 0].numpy() / 255 * 16 - raw.images).max() < 0.04
    assert test.labels is not None
    assert test.labels.tolist() == raw.target[-360:].tolist()


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_data_sets(tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    images = rng.integers(0, 256, (7, 28, 28), dtype=np.uint8)
    labels = np.arange(7, dtype=np.uint8)
    for stem in ("train", "t10k"):
        write_idx(tmp_path / name / f"{stem}-images-idx3-ubyte", images[: 7 if stem == "train" else 4])
        write_idx(tmp_path / name / f"{stem}-labels-idx1-ubyte", labels[: 7 if stem == "train" else 4])
    data = load(name, "test", root=tmp_path)
    assert np.array_equal(data.fetch(torch.arange(4))[:, 0].numpy(), images[:4])
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 2, 3]
    assert len(data.class_names or []) == 10
    assert len(load(name, root=tmp_path)) == 7


def test_cifar10(tmp_path: Path, rng: np.random.Generator) -> None:
    folder = tmp_path / "cifar10"
    folder.mkdir()
    records = rng.integers(0, 10, (6, 2, 3073), dtype=np.uint8)
    for k in range(5):
        (folder / f"data_batch_{k + 1}.bin").write_bytes(records[k].tobytes())
    (folder / "test_batch.bin").write_bytes(records[5].tobytes())
    train, test = load("cifar10", root=tmp_path), load("cifar10", "test", root=tmp_path)
    assert (len(train), len(test), train.shape) == (10, 2, (3, 32, 32))
    assert train.labels is not None
    assert train.labels.tolist() == records[:5, :, 0].ravel().tolist()
    assert np.array_equal(train.fetch(torch.tensor([3])).numpy().ravel(), records[1, 1, 1:])
    assert (train.class_names or [])[3] == "cat"


def test_stl10_with_its_unlabelled_split(tmp_path: Path, rng: np.random.Generator) -> None:
    folder = tmp_path / "stl10"
    folder.mkdir()
    images = {}
    for split, n in (("train", 4), ("test", 3), ("unlabeled", 6)):
        images[split] = rng.integers(0, 256, (n, 3, 96, 96), dtype=np.uint8)
        (folder / f"{split}_X.bin").write_bytes(images[split].transpose(0, 1, 3, 2).tobytes())
        if split != "unlabeled":
            (folder / f"{split}_y.bin").write_bytes(bytes(range(1, n + 1)))
    train, unlabelled = load("stl10", root=tmp_path), load("stl10", "unlabelled", root=tmp_path)
    assert train.labels is not None
    assert train.labels.tolist() == [0, 1, 2, 3]
    assert unlabelled.labels is None
    assert np.array_equal(unlabelled.fetch(torch.tensor([5, 2])).numpy(), images["unlabeled"][[5, 2]])
    assert len(load("stl10", "test", root=tmp_path)) == 3


def test_imagenet100_reads_the_usual_hundred_classes_of_a_larger_folder(tmp_path: Path, write_images: Writer) -> None:
    for wnid in ("n02869837", "n01749939", "n00000001"):
        write_images(tmp_path / "imagenet" / "train" / wnid, 2)
        write_images(tmp_path / "imagenet" / "val" / wnid, 1)
    train, test = load("imagenet100", root=tmp_path), load("imagenet100", "test", root=tmp_path)
    assert (len(train), len(test)) == (4, 2)
    assert train.labels is not None
    assert train.labels.tolist() == [0, 0, 1, 1]
    assert len(train.class_names or []) == 100


def test_imagenet100_takes_a_class_list_of_its_own(tmp_path: Path, write_images: Writer) -> None:
    for wnid in ("n1", "n2"):
        write_images(tmp_path / "imagenet100" / "train" / wnid, 2)
    (tmp_path / "imagenet100" / "classes.txt").write_text("n2\n")
    assert len(load("imagenet100", root=tmp_path)) == 2


def test_a_slice_of_tiny_imagenet(slices: Path) -> None:
    train = load(slices / "tiny-imagenet-200")
    test = load(slices / "tiny-imagenet-200", "test")
    assert (len(train), len(test), train.shape, test.shape) == (400, 100, (3, 64, 64), (3, 64, 64))
    assert train.labels is not None
    assert test.labels is not None
    assert train.labels.bincount().tolist() == [40] * 10
    assert test.labels.bincount().tolist() == [10] * 10
    assert "goldfish" in (train.class_names or [])
    images = train.fetch(torch.arange(400))
    assert train.unreadable == []
    assert 0.3 < images.float().mean() / 255 < 0.6


def test_photographs_in_folders(slices: Path) -> None:
    train, test = load(slices / "photos"), load(slices / "photos", "test", image_size=64, channels=1)
    assert isinstance(train, FileData)
    assert (len(train), train.shape, train.name) == (120, (3, 224, 224), "photos")
    assert test.fetch(torch.tensor([0, 39])).shape == (2, 1, 64, 64)
    assert train.class_names == test.class_names


def test_a_list_file(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path, 3)
    (tmp_path / "mine.txt").write_text("002.png,b\n000.png,a\n")
    data = load(tmp_path / "mine.txt")
    assert data.name == "mine"
    assert data.fetch(torch.tensor([0]))[0, 0, 0, 0] == 2
    with pytest.raises(ValueError, match="a list of their own"):
        load(tmp_path / "mine.txt", "test")


def test_size_and_channels_of_images_in_memory() -> None:
    plain, changed = load("digits"), load("digits", image_size=16, channels=3)
    assert changed.shape == (3, 16, 16)
    images = changed.fetch(torch.arange(50))
    assert torch.equal(images[:, 0], images[:, 2])
    assert abs(images.float().mean() - plain.fetch(torch.arange(50)).float().mean()) < 3


def test_missing_data_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kvicreg data get cifar10"):
        load("cifar10", root=tmp_path)
    (tmp_path / "mnist").mkdir()
    with pytest.raises(ValueError, match=r"lacks train-images-idx3-ubyte; .* kvicreg data get mnist"):
        load("mnist", root=tmp_path)
    with pytest.raises(ValueError, match=r"account with image-net\.org"):
        load("imagenet100", root=tmp_path)


def test_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'cifar10'"):
        load("cifar-10")
    with pytest.raises(ValueError, match="neither a data set's name nor a folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="split: expected one of train, val, test, unlabelled, got 'valid'"):
        load("mnist-small", "valid")
    with pytest.raises(ValueError, match="'unlabelled' is a split of stl10"):
        load("mnist-small", "unlabelled")
    with pytest.raises(ValueError, match="channels: expected 1 to 32"):
        load("mnist-small", channels=33)


def test_the_data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVICREG_DATA", str(tmp_path / "env"))
    assert data_root() == tmp_path / "env"
    assert data_root(tmp_path) == tmp_path
    monkeypatch.delenv("KVICREG_DATA")
    assert data_root() == Path.home() / ".cache" / "kvicreg"


def test_an_array_of_ones_own() -> None:
    data = ArrayData(torch.zeros(5, 3, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 2, 1, 0]))
    part = data.subset(torch.tensor([2, 3]))
    assert part.labels is not None
    assert part.labels.tolist() == [2, 1]
    assert data.class_names == ["0", "1", "2"]
    with pytest.raises(ValueError, match=r"images: expected a tensor or array of numbers .* got bool \(5, 3, 8, 8\)"):
        ArrayData(torch.zeros(5, 3, 8, 8, dtype=torch.bool))
    with pytest.raises(ValueError, match="labels: expected 5 whole numbers"):
        ArrayData(torch.zeros(5, 3, 8, 8, dtype=torch.uint8), torch.zeros(4, dtype=torch.long))


def test_tiny_imagenet_is_read_in_its_own_layout(tmp_path):
    root = tmp_path / "tiny-imagenet"
    for wnid, shade in (("n01443537", 10), ("n02056570", 200)):
        for k in range(2):
            file = root / "train" / wnid / "images" / f"{wnid}_{k}.JPEG"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (64, 64), (shade, shade, shade)).save(file)
    (root / "wnids.txt").write_text("n02056570\nn01443537\n")
    (root / "val" / "images").mkdir(parents=True)
    Image.new("RGB", (64, 64), (200, 200, 200)).save(root / "val" / "images" / "val_0.JPEG")
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn02056570\t0\t0\t63\t63\n")
    train, val = load("tiny-imagenet", root=tmp_path), load("tiny-imagenet", "val", root=tmp_path)
    assert (len(train), train.class_names, train.shape) == (4, ["n02056570", "n01443537"], (3, 64, 64))
    assert val.labels.tolist() == [0]
    with pytest.raises(ValueError, match="tiny-imagenet is not in"):
        load("tiny-imagenet", root=tmp_path / "elsewhere")


def test_the_range_of_intensities_is_that_of_the_training_images(tmp_path):
    for split, greatest in (("train", 4000), ("test", 1000)):
        (tmp_path / split).mkdir()
        for k in range(3):
            pixels = np.linspace(0, greatest, 64, dtype=np.uint16).reshape(8, 8)
            Image.fromarray(pixels).save(tmp_path / split / f"{k}.png")
    assert load(tmp_path, "test").intensity == load(tmp_path, "train").intensity
    assert load(tmp_path, "test", image_size=8, channels=1).intensity == load(tmp_path, "train").intensity
    assert load(tmp_path, "test", image_size=8, channels=1, intensity="0:1000").intensity.text == "0:1000"


def test_size_and_channels_that_are_not_given_are_those_of_training(tmp_path: Path, write_images: Writer) -> None:
    (tmp_path / "train").mkdir()
    for k in range(2):
        Image.fromarray(np.full((12, 12), 1000 * k, np.uint16)).save(tmp_path / "train" / f"{k}.png")
    write_images(tmp_path / "test", 2, (20, 20))
    assert load(tmp_path).shape == (1, 12, 12)
    assert load(tmp_path, "test").shape == (1, 12, 12)
    assert load(tmp_path, "test", image_size=8).shape == (1, 8, 8)
    assert load(tmp_path, "test", channels=3).shape == (3, 12, 12)
    assert load(tmp_path, "test", image_size=8, channels=3).shape == (3, 8, 8)
    assert load(tmp_path, "test").split == "test"


def test_a_split_without_training_has_a_size_of_its_own(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path / "test", 2, (20, 20))
    assert load(tmp_path, "test").shape == (3, 20, 20)


def test_how_files_are_read_reaches_them(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path / "a", 2)
    data = load(tmp_path, fit="stretch", pages="channels", class_level="none")
    assert (data.fit, data.pages, data.labels, data.name) == ("stretch", "channels", None, tmp_path.name)
    assert data.notes == ("no classes: folders are not taken as labels (--class-level chooses)",)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("a/photos.tar.gz", "photos.tar"), ("s3://bucket/photos", "photos"), ("part-{0..3}.tar", "part"),
        ("x/train_{0..3}.tar", "train"), ("{0..3}.tar", "images"), ("hf:user/name", "name"), ("/", "images"),
    ],
)  # fmt: skip
def test_what_images_are_called(source: str, name: str) -> None:
    assert source_name(source) == name


def test_a_folder_is_called_by_its_own_name_wherever_one_stands(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "my.photos").mkdir()
    monkeypatch.chdir(tmp_path / "my.photos")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert source_name(".") == source_name("~/my.photos") == "my.photos"


def test_wrong_arguments_are_told_in_whole_sentences(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="^image_size: expected at least 1, got 0$"):
        load("mnist-small", image_size=0)
    assert load("mnist-small", image_size=1, channels=32).shape == (32, 1, 1)
    names = ", ".join(DATA_SETS)
    message = f"^data: 'zzz' is neither a data set's name nor a folder or file here; the names are {names}$"
    with pytest.raises(ValueError, match=message):
        load("zzz")
    with pytest.raises(ValueError, match="^fit: mnist is a data set known by name, which does not read it$"):
        load("mnist", pages="images", fit="stretch")
    with pytest.raises(ValueError, match="^pages: tiny-imagenet is a data set known by name, which does not read it$"):
        load("tiny-imagenet", pages="images", fit="stretch")
    with pytest.raises(
        ValueError, match="^split: mnist has 'train' and 'test' only; 'unlabelled' is a split of stl10$"
    ):
        load("mnist", "unlabelled", root=tmp_path)
    missing = f"^data: mnist is not in {tmp_path}; fetch it with: kvicreg data get mnist$"
    with pytest.raises(ValueError, match=missing):
        load("mnist", root=tmp_path)
    with pytest.raises(
        ValueError, match=f"^data: imagenet100 is not in {tmp_path}. {DATA_SETS['imagenet100'].how[:20]}"
    ):
        load("imagenet100", root=tmp_path)


@pytest.mark.parametrize(("name", "cat"), [("cifar10", "cat"), ("mnist", "3"), ("digits", "3"), ("stl10", "cat")])
def test_names_of_the_classes_of_known_data(tmp_path: Path, name: str, cat: str) -> None:
    (tmp_path / name).mkdir()
    for file in DATA_SETS[name].files:
        content = bytes([3]) if "_y" in file else bytes(3 * 96 * 96) if name == "stl10" else bytes([3]) + bytes(3072)
        (tmp_path / name / file).write_bytes(content)
    if name == "mnist":
        for stem in ("train", "t10k"):
            write_idx(tmp_path / name / f"{stem}-images-idx3-ubyte", np.zeros((1, 28, 28), np.uint8))
            write_idx(tmp_path / name / f"{stem}-labels-idx1-ubyte", np.full(1, 3, np.uint8))
    train, val = load(name, root=tmp_path), load(name, "val", root=tmp_path)
    assert train.class_names == val.class_names
    assert len(train.class_names) == 10
    assert train.class_names[3] == cat
    assert (train.name, train.split, val.split) == (name, "train", "val")


def test_known_images_are_brought_to_a_size_and_channels() -> None:
    whole = load("mnist-small")
    small = load("mnist-small", "val", image_size=14, channels=3)
    assert small.shape == (3, 14, 14)
    assert len(small) == 2000
    shrunk = torch.nn.functional.interpolate(
        load("mnist-small", "test").fetch(torch.tensor([1999])), (14, 14), mode="bilinear", antialias=True
    )
    assert torch.equal(small.fetch(torch.tensor([1999])), shrunk.expand(-1, 3, -1, -1))
    assert torch.equal(
        load("mnist-small", channels=2).fetch(torch.tensor([5]))[:, 1], whole.fetch(torch.tensor([5]))[:, 0]
    )
    assert len(load("digits")) == 1797 - 360


def test_a_folder_that_is_called_like_a_data_set_is_told_to_be_another(tmp_path: Path, monkeypatch, caplog) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    loading._tell_whose_name.cache_clear()
    assert len(load("digits", root=tmp_path)) == 1437
    assert not caplog.messages  # the folder of data is where it looks itself
    assert len(load("digits")) == 1437
    assert caplog.messages == ["digits is the data set of that name; for the folder here write ./digits"]
