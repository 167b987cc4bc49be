"""Do group-fair terms keep a minority's spectrum? MNIST made unbalanced, with and without them.

Two ways to be a minority of 2 % of the training images: as classes (the digits 3, 5 and 8) and as a style (inked white
on black like the others, but negative). The probe is fitted on labelled training images that pretraining never saw,
in which no group is rare, and scored on the test set: what differs between groups is what the encoder has learnt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from kvicreg.data import ArrayData, ImageData, hold_out, load, permutation
from kvicreg.evaluation.fairness import by_group
from kvicreg.evaluation.features import extract
from kvicreg.evaluation.probes import linear_probe
from kvicreg.models import load_encoder
from kvicreg.storage import write_atomically
from kvicreg.training.config import TrainConfig
from kvicreg.training.run import train

__all__ = ["MINORITY", "VARIANTS", "Unbalanced", "run", "unbalanced"]

Kind = Literal["classes", "style"]
MINORITY = (3, 5, 8)
SHARE = 0.02
HELD_OUT = 10_000
VARIANTS: dict[str, dict[str, Any] | None] = {
    "without": None,
    "group terms": {"group_weight": 0.5},
    "group terms, own bandwidth": {"group_weight": 0.5, "group_bandwidth": True},
}
"""What is compared; None is training that knows of no groups."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Unbalanced:
    """Images to pretrain on, to fit a probe on and to score it on, each with the group of every image."""

    train: ImageData
    train_groups: list[str]
    fit: ImageData
    test: ImageData
    test_groups: list[str]


def unbalanced(data: str, kind: Kind, images: int, *, root: str | None = None) -> Unbalanced:
    """So many images of which 2 % belong to the minority, the same ones every time."""
    rest, held = hold_out(load(data, root=root), HELD_OUT)
    test = load(data, "test", root=root)
    assert held is not None
    order = permutation(len(rest), seed=0, epoch=-4)
    few = round(SHARE * images)
    if kind == "style":
        chosen = order[:images]
        rare = torch.arange(images) < few
        train = _negative(rest.subset(chosen), rare)
        return Unbalanced(train, _names(rare), _both(held), _both(test), _names(torch.arange(2 * len(test)) % 2 == 1))
    rare_class = torch.isin(_labels(rest)[order], torch.tensor(MINORITY))
    chosen = torch.cat([order[rare_class][:few], order[~rare_class][: images - few]])
    if len(chosen) < images:
        raise ValueError(f"images: {data} has too few images for {images} of which {1 - SHARE:.0%} are the majority")
    groups = [_names(torch.isin(_labels(part), torch.tensor(MINORITY))) for part in (rest.subset(chosen), test)]
    return Unbalanced(rest.subset(chosen), groups[0], held, test, groups[1])


def run(
    config: TrainConfig,
    out: Path,
    runs: Path,
    *,
    kinds: Sequence[Kind] = ("classes", "style"),
    seeds: Sequence[int] = (0, 1, 2),
    part: tuple[int, int] = (0, 1),
    say: Say = print,
) -> Path | None:
    """Train and measure what is not finished; write ``out/fairness.json`` once every cell is.

    Args:
        config: what all runs share; its `images` are as many as are pretrained on.
        runs: where the run folders go: runs/KIND-VARIANT-SEED.
        part: (k, n): only every n-th cell, from the k-th on; the others are left to other processes.
    """
    assert config.images is not None
    cells = [_Cell(kind, variant, seed, runs, config) for seed in seeds for kind in kinds for variant in VARIANTS]
    sets: dict[str, Unbalanced] = {}
    for cell in cells[part[0] :: part[1]]:
        if cell.finished() is None:
            if cell.kind not in sets:
                sets[cell.kind] = unbalanced(config.data, cell.kind, config.images, root=config.data_root)
            row = cell.run(sets[cell.kind])
            say(f"{cell.folder.name}: {', '.join(f'{g} {_percent(v)}' for g, v in row['groups'].items())}")
    rows = [cell.finished() for cell in cells]
    if None in rows:
        say(f"{rows.count(None)} of {len(cells)} cells are left to other processes")
        return None
    kept = [{key: value for key, value in row.items() if key != "config"} for row in rows if row is not None]
    told = ("data", "images", "kernel", "encoder", "width", "epochs", "batch_size", "projector_outputs")
    content = {"settings": {key: getattr(config, key) for key in told}, "minority": list(MINORITY), "share": SHARE}
    out.mkdir(parents=True, exist_ok=True)
    path = out / "fairness.json"
    write_atomically(path, json.dumps({**content, "rows": kept}, indent=1).encode() + b"\n")
    return path


class _Cell:
    """One run: its settings, its folder, and its row once it is measured."""

    def __init__(self, kind: Kind, variant: str, seed: int, runs: Path, config: TrainConfig) -> None:
        self.kind, self.variant, self.seed = kind, variant, seed
        self.folder = runs / f"{kind}-{variant.replace(', ', '-').replace(' ', '-')}-{seed}"
        self.config = replace(config, **(VARIANTS[variant] or {}), seed=seed, out=str(self.folder), images=None)

    def finished(self) -> dict[str, Any] | None:
        path = self.folder / "fairness.json"
        row: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        return row if row.get("config") == self._asked() else None

    def _asked(self) -> dict[str, Any]:
        asked: dict[str, Any] = json.loads(json.dumps({**asdict(self.config), "out": None, "data_root": None}))
        return asked

    def run(self, data: Unbalanced) -> dict[str, Any]:
        """Train, unless that is done, measure each group, and write the row."""
        config = self.config
        if VARIANTS[self.variant] is not None:
            names = self.folder.with_suffix(".groups.txt")
            names.parent.mkdir(parents=True, exist_ok=True)
            names.write_text("\n".join(data.train_groups) + "\n")
            config = replace(config, groups=str(names))
        resume = (self.folder / "checkpoints" / "last.ckpt").is_file()
        train(config, data=data.train, quiet=True, resume=resume, overwrite=not resume)
        encoder = load_encoder(self.folder)
        x, t = extract(encoder, data.fit), extract(encoder, data.test)
        probe = linear_probe(x, _labels(data.fit), t, _labels(data.test), seed=self.seed)
        groups = {
            group.name: {
                "accuracy": round(group.accuracy.value, 5),
                "effective_rank": round(group.effective_rank, 4),
                "images": group.images,
                "eigenvalues": [float(f"{value:.5g}") for value in group.eigenvalues],
            }
            for group in by_group(probe.correct, t, data.test_groups, seed=self.seed).groups
        }
        row: dict[str, Any] = {"kind": self.kind, "variant": self.variant, "seed": self.seed}
        row |= {"accuracy": round(probe.accuracy, 5), "groups": groups, "config": self._asked()}
        write_atomically(self.folder / "fairness.json", json.dumps(row, indent=1).encode() + b"\n")
        return row


def _labels(data: ImageData) -> Tensor:
    if data.labels is None:
        raise ValueError(f"{data.name!r} has no labels to make groups of and to probe with")
    return data.labels


def _names(rare: Tensor) -> list[str]:
    return ["minority" if is_rare else "majority" for is_rare in rare.tolist()]


def _negative(data: ImageData, rare: Tensor) -> ArrayData:
    images = data.fetch(torch.arange(len(data)))
    images[rare] = 255 - images[rare]
    return ArrayData(images, data.labels, name=data.name, split=data.split, class_names=data.class_names)


def _both(data: ImageData) -> ArrayData:
    """Every image twice, as it is and as a negative."""
    twice = torch.arange(len(data)).repeat_interleave(2)
    return _negative(data.subset(twice), torch.arange(len(twice)) % 2 == 1)


def _percent(group: dict[str, Any]) -> str:
    return f"{100 * group['accuracy']:.1f} % (effective rank {group['effective_rank']:.1f})"
