"""Parts of TinyImageNet that stand in for data sets that can't be had, as folders of links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from experiments.common.job import Job
from kvicreg.data import data_root

STL_LIKE = {
    "bird": ("n01855672", "n02058221"),  # goose, albatross
    "car": ("n04285008", "n03100240"),  # sports car, convertible
    "cat": ("n02123045", "n02124075"),  # tabby, Egyptian cat
    "deer": ("n02423022", "n02415577"),  # gazelle, bighorn
    "dog": ("n02106662", "n02099712"),  # German shepherd, Labrador retriever
    "monkey": ("n02486410", "n02481823"),  # baboon, chimpanzee
    "ox": ("n02403003", "n02410509"),  # ox, bison: in place of horse
    "ship": ("n03447447", "n03662601"),  # gondola, lifeboat
    "train": ("n02917067", "n03393912"),  # bullet train, freight car: in place of aeroplane
    "truck": ("n03796401", "n03977966"),  # moving van, police van
}
"""STL-10's classes, or the nearest there are, each of two of TinyImageNet's: 10,000 training and 1,000 test images."""

STAND_INS = ("tiny-imagenet-100", "stl-like")
"""The first hundred classes of TinyImageNet, at 64 pixels; and those above."""


@cache
def stand_in(job: Job, name: str | None) -> str | None:
    """What `load` takes for a name: a data set's own, the folder of a stand-in, or None where it has no part.

    Without TinyImageNet it is the name of the stand-in, by which its rows of before are known.
    """
    tiny = data_root(job.root) / "tiny-imagenet"
    if name not in STAND_INS or (job.budget == "small" and not tiny.is_dir()):
        return name
    if job.budget != "small":
        return None
    wnids = (tiny / "wnids.txt").read_text().split()[:100]
    return str(linked(tiny, job.runs / name, STL_LIKE if name == "stl-like" else {wnid: (wnid,) for wnid in wnids}))


def linked(tiny: Path, out: Path, classes: Mapping[str, Sequence[str]]) -> Path:
    """A folder of train/CLASS and test/CLASS with links to TinyImageNet's training and validation images."""
    of = {wnid: name for name, wnids in classes.items() for wnid in wnids}
    lines = (tiny / "val" / "val_annotations.txt").read_text().splitlines()
    files = [("train", wnid, file) for wnid in of for file in sorted((tiny / "train" / wnid / "images").iterdir())]
    files += [("test", wnid, tiny / "val" / "images" / name) for name, wnid, *_ in map(str.split, lines) if wnid in of]
    for split, wnid, file in files:
        link = out / split / of[wnid] / file.name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(file.resolve())
    return out
