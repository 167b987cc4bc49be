"""`load`: a name, a folder or a list file becomes an `ImageData`."""

from __future__ import annotations

import difflib
from functools import partial
from importlib import resources
from pathlib import Path

import torch
from torch import Tensor

from kvicreg.data import formats
from kvicreg.data.catalogue import DATA_SETS, data_root
from kvicreg.data.files import FileData, common_size
from kvicreg.data.folders import Listing, list_file, list_folder
from kvicreg.data.given import refuse_given
from kvicreg.data.images import ArrayData, ImageData
from kvicreg.data.transforms import LUMA

SPLITS = ("train", "test", "unlabelled")
_CLASSES = {
    "fashion-mnist": "T-shirt/top,trouser,pullover,dress,coat,sandal,shirt,sneaker,bag,ankle boot",
    "cifar10": "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck",
    "stl10": "airplane,bird,car,cat,deer,dog,horse,monkey,ship,truck",
}  # the others are digits, or told by folders


def load(
    source: str | Path,
    split: str = "train",
    *,
    root: str | Path | None = None,
    image_size: int | None = None,
    channels: int | None = None,
) -> ImageData:
    """The images of `source`.

    Args:
        source: a name (`kvicreg data list` tells them), a folder of images or a list file.
        split: "train", "test" (the official validation set where the test labels are secret) or "unlabelled".
        root: where named data sets live; by default $KVICREG_DATA, else ~/.cache/kvicreg.
        image_size: side of the images; by default the data set's own, for files the median one, at most 224.
        channels: 1 or 3; by default the data set's own, for files 3.

    Example:
        >>> load("mnist-small")
        ArrayData('mnist-small', 'train': 8,000 images 1x28x28, 10 classes)
    """
    refuse_given(str(source))
    if split not in SPLITS:
        raise ValueError(f"split: expected one of {', '.join(SPLITS)}, got {split!r}")
    if image_size is not None and image_size < 1:
        raise ValueError(f"image_size: expected at least 1, got {image_size}")
    if channels not in (None, 1, 3):
        raise ValueError(f"channels: expected 1 or 3, got {channels}")
    name = str(source)
    if name in ("tiny-imagenet", "imagenet100"):
        folder, classes = _named_folder(name, data_root(root))
        return _folder(folder, name, split, image_size, channels, classes)
    if name in DATA_SETS:
        images, labels = _arrays(name, split, data_root(root))
        classes = _CLASSES.get(name, "0,1,2,3,4,5,6,7,8,9").split(",") if labels is not None else None
        images = _resized(images, image_size, channels)
        return ArrayData(images, labels, name=name, split=split, class_names=classes)
    path = Path(source).expanduser()
    if path.is_dir():
        return _folder(path, path.resolve().name, split, image_size, channels)
    if path.is_file():
        if split != "train":
            raise ValueError(f"split: a list file has only 'train'; give the {split!r} images a list of their own")
        return _files(list_file(path), path.stem, split, image_size, channels)
    near = difflib.get_close_matches(name, DATA_SETS, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"the names are {', '.join(DATA_SETS)}"
    raise ValueError(f"data: {name!r} is neither a data set's name nor a folder or file here; {hint}")


def _arrays(name: str, split: str, root: Path) -> tuple[Tensor, Tensor | None]:
    if split == "unlabelled" and name != "stl10":
        raise ValueError(f"split: {name} has 'train' and 'test' only; 'unlabelled' is a split of stl10")
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


def _named_folder(name: str, root: Path) -> tuple[Path, list[str] | None]:
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


def _folder(
    folder: Path, name: str, split: str, image_size: int | None, channels: int | None, classes: list[str] | None = None
) -> FileData:
    """Test images take the size of the training images, so that both splits agree."""
    listing = list_folder(folder, split, classes)
    if image_size is None and split != "train":
        try:
            image_size = common_size(list_folder(folder, "train", classes).paths)
        except ValueError:  # no training split: the size of its own
            image_size = None
    return _files(listing, name, split, image_size, channels)


def _files(listing: Listing, name: str, split: str, image_size: int | None, channels: int | None) -> FileData:
    paths, labels, names = listing
    return FileData(paths, labels, name=name, split=split, class_names=names, size=image_size, channels=channels or 3)


def _resized(images: Tensor, size: int | None, channels: int | None) -> Tensor:
    """uint8 images of the size and channels asked; untouched (still memory-mapped) when they have them."""
    if channels == 1 and images.shape[1] == 3:
        weights = torch.tensor(LUMA)[:, None, None]
        grey = [(part * weights).sum(1, keepdim=True).round() for part in torch.split(images, 1024)]
        images = torch.cat([part.to(torch.uint8) for part in grey])
    elif channels == 3 and images.shape[1] == 1:
        images = images.expand(-1, 3, -1, -1)
    if size is not None and size != images.shape[2]:
        resize = partial(torch.nn.functional.interpolate, size=(size, size), mode="bilinear", antialias=True)
        images = torch.cat([resize(part) for part in torch.split(images, 1024)])
    return images
