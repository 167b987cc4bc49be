"""What `kvicreg explore` and its commands do, measured on real images: duplicates, leaks, labelling, speed.

Each is a command of `python -m experiments` and leaves a file in docs/results/explore.
"""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from kvicreg.benchmarks.measure import code_of
from kvicreg.data import first_images
from kvicreg.evaluation.embed import images_for
from kvicreg.explore import Collection, Learner, duplicate_pairs, leaks, open_encoder, open_images
from kvicreg.storage import write_atomically

OUT = Path("docs/results/explore")
KINDS = ("re-encoded", "cropped", "resized", "mirrored")


def write(out: Path, name: str, content: dict[str, Any]) -> str:
    """Write the numbers of a measurement; returns the last line of its command."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"bench-{name}.json"
    code = code_of("explore", "measures")
    write_atomically(path, json.dumps({**content, "code": code}, indent=1).encode() + b"\n")
    return f"Results: {path}"


# -- duplicates ---------------------------------------------------------------------------------------------------


def explore_duplicates(
    run: Path,
    photos: Path,
    /,
    images: int = 3000,
    planted: int = 600,
    seed: int = 0,
    name: str = "duplicates",
    out: Path = OUT,
) -> str:
    """Precision and recall of planted near duplicates among photographs, beside perceptual hashes.

    A fifth of the images is planted once more: re-encoded as JPEG of quality 40, cropped by 5 % of each side, resized
    to half, or mirrored. Every pair of images is judged; a pair is right if one is planted from the other.

    Args:
        run: run folder.
        photos: folder of photographs.
        images: how many photographs.
        planted: how many duplicates, of four kinds in turn.
        seed: of the choice.
        name: of the file to write.
        out: folder to write to.
    """
    with tempfile.TemporaryDirectory() as folder:
        truth = plant(photos, Path(folder) / "photos", images, planted, seed)
        collection = open_images(run, Path(folder) / "photos", cache=Path(folder) / "cache", workers=0)
        names = {name: index for index, name in enumerate(collection.names)}
        pairs = {tuple(sorted((names[copy], names[name]))): kind for copy, (name, kind) in truth.items()}
        rows = [judged("encoder", *duplicate_pairs(collection, 0.4), pairs)]
        rows.append(judged("encoder at the default threshold", *duplicate_pairs(collection), pairs, tuned=False))
        rows.append(judged("encoder, not mirrored", *duplicate_pairs(collection, 0.4, mirrored=False), pairs))
        for hash_name in ("phash", "dhash", "average_hash"):
            for mirrored in (False, True):
                title = f"imagehash {hash_name}{', mirrored too' if mirrored else ''}"
                rows.append(judged(title, *hash_pairs(collection, hash_name, mirrored), pairs))
    for row in rows:
        print(f"{row['method']:42} precision {row['precision']:.3f} recall {row['recall']:.3f} {row['by_kind']}")
    where = "/".join(photos.parts[-2:])
    about = {"images": images, "planted": planted, "seed": seed, "encoder": run.name, "photographs": where}
    return write(out, name, {**about, "rows": rows})


def plant(photos: Path, folder: Path, images: int, planted: int, seed: int) -> dict[str, tuple[str, str]]:
    """Photographs, and altered ones beside them: the name of each copy, of what it is a copy, and of which kind."""
    files = sorted(path for path in photos.rglob("*") if path.suffix.lower() in (".jpeg", ".jpg", ".png"))
    rng = np.random.default_rng(seed)
    chosen = [files[place] for place in rng.permutation(len(files))[:images]]
    folder.mkdir(parents=True)
    truth = {}
    for number, path in enumerate(chosen):
        name = f"{number:05}.jpg"
        os.symlink(path.resolve(), folder / name)
        if number < planted:
            kind = KINDS[number % len(KINDS)]
            copy = f"{number:05}-{kind}.jpg"
            altered(Image.open(path).convert("RGB"), kind, rng).save(
                folder / copy, quality=40 if kind == "re-encoded" else 90
            )
            truth[copy] = (name, kind)
    return truth


def altered(image: Image.Image, kind: str, rng: np.random.Generator) -> Image.Image:
    """A near duplicate of an image."""
    width, height = image.size
    if kind == "cropped":
        less_x, less_y = round(0.05 * width), round(0.05 * height)
        x, y = int(rng.integers(0, less_x + 1)), int(rng.integers(0, less_y + 1))
        return image.crop((x, y, x + width - less_x, y + height - less_y))
    if kind == "resized":
        return image.resize((width // 2, height // 2))
    return ImageOps.mirror(image) if kind == "mirrored" else image


def judged(method: str, pairs: Tensor, scores: Tensor, truth: dict[Any, str], tuned: bool = True) -> dict[str, Any]:
    """Precision and recall of pairs, most alike first: of all, or cut where their harmonic mean is best."""
    right = np.array([tuple(pair) in truth for pair in pairs.tolist()], dtype=float)
    # pairs with equal scores are taken together
    scores_of = scores.numpy()
    ends = np.flatnonzero(np.append(np.diff(scores_of) != 0, True)) if len(right) else np.array([], dtype=int)
    hits = right.cumsum()[ends]
    precision, recall = hits / (ends + 1), hits / len(truth)
    place = int((2 * precision * recall / (precision + recall + 1e-9)).argmax()) if tuned else len(ends) - 1
    given = {tuple(pair) for pair in pairs[: int(ends[place]) + 1].tolist()}
    by_kind = {
        kind: round(float(np.mean([pair in given for pair, k in truth.items() if k == kind])), 4) for kind in KINDS
    }
    return {
        "method": method,
        "threshold": round(float(scores_of[ends[place]]), 4),
        "precision": round(float(precision[place]), 4),
        "recall": round(float(recall[place]), 4),
        "by_kind": by_kind,
    }


def hash_pairs(images: Collection, name: str, mirrored: bool) -> tuple[Tensor, Tensor]:
    """Pairs whose perceptual hashes differ in at most 16 of 64 bits, and minus the bits."""
    import imagehash

    compute: Callable[[Image.Image], Any] = getattr(imagehash, name)
    paths = images.data.paths
    assert paths is not None

    def bits(mirror: bool) -> Tensor:
        opened = (Image.open(path) for path in paths)
        hashes = [compute(ImageOps.mirror(image) if mirror else image).hash.flatten() for image in opened]
        return torch.from_numpy(np.array(hashes)).float()

    plain = bits(False)
    distance = torch.cdist(plain, plain, p=1)
    if mirrored:
        distance = torch.minimum(distance, torch.cdist(plain, bits(True), p=1))
    pairs = (torch.triu(distance <= 16, 1)).nonzero()
    differing = distance[pairs[:, 0], pairs[:, 1]]
    order = differing.argsort(stable=True)
    return pairs[order], -differing[order]


def explore_leaks(
    run: Path, annotated: Path, /, data_root: Path | None = None, cache: Path | None = None, out: Path = OUT
) -> str:
    """Near duplicates between CIFAR-10's test and training images, beside the published list of them.

    Args:
        run: run folder.
        annotated: duplicates_cifar10.csv of ciFAIR (Barz and Denzler, 2020), which lists pairs judged by people.
        data_root: where data sets live.
        cache: folder for features.
        out: folder to write to.
    """
    test, train = (open_images(run, "cifar10", split=s, root=data_root, cache=cache) for s in ("test", "train"))
    given = leaks(test, train, 0.3)
    with open(annotated, newline="") as file:
        rows = list(csv.DictReader(file))
    listed = {int(row["TestID"]): (int(row["TrainID"]), int(row["Judgment"])) for row in rows}
    table = []
    for threshold in (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9):
        above = {leak.index: leak.other for leak in given if leak.similarity >= threshold}
        hits = [index for index in listed if index in above]
        same = sum(above[index] == listed[index][0] for index in hits)
        by_judgment = {j: sum(listed[i][1] == j for i in hits) for j in (0, 1, 2)}
        row = {"threshold": threshold, "images": len(above), "listed": len(hits), "same_twin": same}
        table.append({**row, "listed_by_judgment": by_judgment})
        print(row)
    count = {j: sum(judgment == j for _, judgment in listed.values()) for j in (0, 1, 2)}
    return write(out, "leaks", {"encoder": run.name, "listed": len(listed), "judgments": count, "rows": table})


# -- labelling ----------------------------------------------------------------------------------------------------


def explore_labelling(
    run: Path,
    sources: list[str],
    /,
    images: int = 10_000,
    clicks: int = 50,
    seeds: int = 3,
    data_root: Path | None = None,
    cache: Path | None = None,
    out: Path = OUT,
) -> str:
    """Accuracy on unlabelled images after clicks on images that the tool chose, and on random ones.

    Args:
        run: run folder.
        sources: data sets by name, whose true classes are what is clicked.
        images: of each training split.
        clicks: how many images are labelled.
        seeds: how many times, with other clusters and other random choices.
        data_root: where data sets live.
        cache: folder for features.
        out: folder to write to.
    """
    rows, encoder = [], open_encoder(run)
    for name in sources:
        data = first_images(images_for(encoder, name, root=data_root), images)
        collection = open_images(encoder, data, cache=cache)
        assert data.labels is not None
        for seed in range(seeds):
            learner = Learner(collection, seed=seed)
            for choice in ("chosen", "random"):
                curve = {count: round(a, 4) for count, a in clicked(learner, data.labels, choice, clicks, seed)}
                rows.append({"data": name, "seed": seed, "choice": choice, "accuracy": curve})
                print(name, seed, choice, curve, flush=True)
    return write(out, "labelling", {"encoder": run.name, "images": images, "clicks": clicks, "rows": rows})


def clicked(learner: Learner, truth: Tensor, choice: str, clicks: int, seed: int) -> Iterator[tuple[int, float]]:
    """Number of clicks, and accuracy on the images that have no label, after every tenth click."""
    order = torch.randperm(len(truth), generator=torch.Generator().manual_seed(1000 + seed)).tolist()
    labels: dict[int, str] = {}
    for count in range(1, clicks + 1):
        index = learner.ask(labels, learner.learn(labels))[0] if choice == "chosen" else order[count - 1]
        labels[index] = str(int(truth[index]))
        if count % 10 == 0:
            opinion = learner.learn(labels)
            rest = torch.tensor([index for index in range(len(truth)) if index not in labels])
            if opinion is None:
                yield count, float((truth[rest] == int(next(iter(labels.values())))).float().mean())
                continue
            classes = torch.tensor([int(name) for name in opinion.classes])
            yield count, float((classes[opinion.prediction[rest]] == truth[rest]).float().mean())


COMMANDS: dict[str, Callable[..., str]] = {
    "explore-duplicates": explore_duplicates,
    "explore-leaks": explore_leaks,
    "explore-labelling": explore_labelling,
}
