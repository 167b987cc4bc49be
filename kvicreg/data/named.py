"""The data sets that are known by name."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import torch
from torch import Tensor

from kvicreg.data import formats
from kvicreg.data.arrays import ArrayData, resized
from kvicreg.data.catalogue import DATA_SETS, data_root
from kvicreg.data.stores import NoSplit

__all__ = ["load_named", "named_folder"]

_CLASSES = {
    "fashion-mnist": "T-shirt/top,trouser,pullover,dress,coat,sandal,shirt,sneaker,bag,ankle boot",
    "cifar10": "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck",
    "stl10": "airplane,bird,car,cat,deer,dog,horse,monkey,ship,truck",
}  # the others are digits, or told by folders


def load_named(
    name: str, split: str, root: str | Path | None, image_size: int | None, channels: int | None
) -> ArrayData:
    """A data set whose images fit into memory, or are mapped there."""
    images, labels = _arrays(name, "test" if split == "val" else split, data_root(root))
    classes = _CLASSES.get(name, "0,1,2,3,4,5,6,7,8,9").split(",") if labels is not None else None
    return ArrayData(_in_shape(images, image_size, channels), labels, name=name, split=split, class_names=classes)


def _arrays(name: str, split: str, root: Path) -> tuple[Tensor, Tensor | None]:
    if split == "unlabelled" and name != "stl10":
        raise NoSplit(f"split: {name} has 'train' and 'test' only; 'unlabelled' is a split of stl10")
    if name == "mnist-small":
        return _embedded(split)
    if name == "digits":
        return _digits(split)
    folder = _present(name, root)
    if name == "cifar10":
        numbers = ["test_batch.bin"] if split == "test" else [f"data_batch_{k}.bin" for k in range(1, 6)]
        return formats.read_cifar10([folder / number for number in numbers])
    if name == "stl10":
        if split == "unlabelled":
            return formats.read_stl10(folder / "unlabeled_X.bin"), None
        return formats.read_stl10(folder / f"{split}_X.bin"), formats.read_stl10_labels(folder / f"{split}_y.bin")
    stem = "t10k" if split == "test" else "train"
    images = formats.read_idx(folder / f"{stem}-images-idx3-ubyte")
    return images[:, None], formats.read_idx(folder / f"{stem}-labels-idx1-ubyte").long()


def _embedded(split: str) -> tuple[Tensor, Tensor]:
    import numpy as np

    with resources.files("kvicreg.data").joinpath("mnist_small.npz").open("rb") as file:
        arrays = np.load(file, allow_pickle=False)
        images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
    return torch.from_numpy(images)[:, None], torch.from_numpy(labels).long()


def _digits(split: str) -> tuple[Tensor, Tensor]:
    """scikit-learn's digits, 16 grey levels made 256; the last 360 are the test set."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("the data set 'digits' comes with scikit-learn: pip install 'kvicreg[eval]'") from error
    raw = load_digits()
    images = torch.from_numpy(raw.images * (255 / 16)).round().to(torch.uint8)[:, None]
    part = slice(-360, None) if split == "test" else slice(None, -360)
    return images[part], torch.from_numpy(raw.target)[part].long()


def _present(name: str, root: Path) -> Path:
    folder = root / name
    if not folder.is_dir():
        raise ValueError(f"data: {name} is not in {root}; fetch it with: kvicreg data get {name}")
    missing = [f for f in DATA_SETS[name].files if not (folder / f).exists() and not (folder / f"{f}.gz").exists()]
    if missing:
        raise ValueError(f"data: {folder} lacks {missing[0]}; fetch it again with: kvicreg data get {name}")
    return folder


def named_folder(name: str, root: Path) -> tuple[Path, list[str] | None]:
    """The folder of a data set of files, and the classes to read there."""
    if name == "tiny-imagenet":
        return _present(name, root), None
    for folder in (root / "imagenet100", root / "imagenet"):
        if folder.is_dir():
            listed = folder / "classes.txt"
            text = listed.read_text() if listed.is_file() else _imagenet100_classes()
            return folder, text.split()
    raise ValueError(f"data: imagenet100 is not in {root}. {DATA_SETS[name].how}")


def _imagenet100_classes() -> str:
    return resources.files("kvicreg.data").joinpath("imagenet100.txt").read_text()


def _in_shape(images: Tensor, size: int | None, channels: int | None) -> Tensor:
    """uint8 images of the size and channels that are wanted; untouched (still memory-mapped) when they have them."""
    size, channels = size or images.shape[2], channels or images.shape[1]
    if size == images.shape[2] and channels >= images.shape[1]:
        return resized(images, channels, size)
    return torch.cat([resized(part, channels, size) for part in torch.split(images, 1024)])
