"""The encoders that come with the package: trained on all training images of a data set, kept in float16."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import nn

from experiments.common import CONTROLS, Cell, Experiment, Job, Result, Row, tables
from experiments.common.cells import accuracies
from experiments.compute import ENCODERS
from experiments.neighbours import scores_table
from kvicreg.data import DATA_SETS, first_images, load
from kvicreg.evaluation.probes import knn
from kvicreg.measures.features import extract
from kvicreg.runs import RunFolder, load_encoder
from kvicreg.runs.config import dump_settings
from kvicreg.runs.stored import DESCRIPTION, WEIGHTS, has_encoder
from kvicreg.runs.zoo import ZOO
from kvicreg.storage import write_atomically, write_json

MODELS: dict[str, dict[str, Any]] = {
    "mnist": {"epochs": 10},
    "fashion-mnist": {"epochs": 10},
    "cifar10": {"epochs": 16, **ENCODERS["resnet18"]},
    "tiny-imagenet": {"epochs": 3, "batch_size": 64},
}
"""What is trained on each data set beside the small budget's settings."""


@dataclass(frozen=True)
class Zoo(Experiment, name="zoo"):
    """Train the encoders that come with the package, and write them where it finds them.

    Example:
        python -m experiments zoo --out docs/results
    """

    page = "backbones.md"
    usual_seeds = (0,)
    columns = ("digits",)
    of_controls = False
    few = {"data": ("mnist",)}

    data: tuple[str, ...] = tuple(MODELS)
    """Data sets."""
    zoo: Path | None = None
    """Folder of the encoders; by default the package's, and at smoke size one in the folder of results."""

    def cells(self, job: Job) -> list[Cell]:
        whole: dict[str, Any] = {"images": None, "holdout": 0} if job.budget == "small" else {}
        return [
            job.cell({"name": "zoo"}, data=data, seed=seed, **whole, **({} if job.budget == "smoke" else MODELS[data]))
            for data in self.data
            for seed in job.seeds
        ]

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        if cell.control is None:
            encoder = encoder.half().float()  # the weights as they are published
        return accuracies(encoder, cell) | {"digits": digits(encoder)}

    def table(self, result: Result) -> str:
        if not result.rows:
            return super().table(result)
        return "\n".join([*result.opening(), scores_table(tables.named(result.rows)), ""])

    def write(self, result: Result) -> None:
        super().write(result)
        zoo = self.zoo or (result.job.out / "zoo" if result.job.budget == "smoke" else ZOO)
        of = tables.groups(result.rows, "data", "method")
        for cell in result.cells:
            data, run = cell.settings.data.short_name, result.job.runs / cell.name
            for row in result.trained:
                if row["data"] == data and has_encoder(run):
                    publish(run, zoo / data, row, [of[data, name][0] for name in CONTROLS])


def publish(run: Path, folder: Path, row: Row, controls: Sequence[Row]) -> None:
    """Write a run's encoder, its description with what was measured, and its card."""
    folder.mkdir(parents=True, exist_ok=True)
    content = save(load_encoder(run).encoder.half().state_dict())
    scores = {score: round(row[score], 4) for score in (*tables.SCORES, "digits")}
    about = {
        **RunFolder(run).description, "sha256": hashlib.sha256(content).hexdigest(), "results": scores,
        "licence": DATA_SETS[row["data"]].licence,
    }  # fmt: skip
    write_atomically(folder / WEIGHTS, content)
    write_json(folder / DESCRIPTION, about)
    settings = RunFolder(run).settings.replace(out=f"runs/{row['data']}", data_root=None)
    write_atomically(folder / "config.yaml", dump_settings(settings).encode())
    write_atomically(folder / "card.md", card(row, controls, about, len(content)).encode())


def digits(encoder: nn.Module) -> float:
    """20-NN on digits that come with the package, 2,000 to 2,000: a number that comes out on any machine."""
    fit, score = (first_images(load("mnist-small", split), 2000) for split in ("train", "test"))
    assert fit.labels is not None
    assert score.labels is not None
    return knn(extract(encoder, fit), fit.labels, extract(encoder, score), score.labels, k=20).accuracy


def card(row: Row, controls: Sequence[Row], about: dict[str, Any], size: int) -> str:
    """What somebody wants to know before taking an encoder."""
    data, name = DATA_SETS[row["data"]], f"zoo:{row['data']}"
    lines = {
        f"linear probe, {row['fitted_on']:,} labels": "probe",
        "linear probe, 1,000 labels": "probe_few",
        "20 nearest neighbours": "knn",
    }
    beside = [about["results"], *controls]
    scores = [[line, *(f"{100 * of[score]:.1f}" for of in beside)] for line, score in lines.items()]
    heading = [f"percent of {row['data']}'s {row['scored_on']:,} test images", "this encoder", *CONTROLS]
    side, channels = about["image_size"], len(about["mean"])
    return f"""# {name}

An image encoder, trained without labels by Kernel VICReg ({row["kernel"]}): {about["architecture"]["name"]}, images
of {side} pixels and {channels} channel{"s" * (channels > 1)} to {about["feature_dim"]} features;
{size / 1e6:.2f} MB in float16.

```python
import kvicreg, torch

encoder = kvicreg.load_encoder("{name}")
images = torch.zeros(8, {channels}, {side}, {side}, dtype=torch.uint8)  # 0 to 255
with torch.no_grad():
    features = encoder(encoder.preprocess(images))  # (8, {about["feature_dim"]})
```

{tables.markdown(heading, scores)}

- Data: {row["data"]}, {data.title}; all training images, {row["config"]["epochs"]} passes. Licence of the data:
  {data.licence}; of the weights: MIT, as kvicreg's, as far as that allows it.
- Made by: `python -m experiments zoo --data {row["data"]}`, seed {row["seed"]}; its settings are in
  `config.yaml` beside this card.
- To measure it yourself: `kvicreg data get {row["data"]}`, then
  `kvicreg evaluate {name} --out runs/{row["data"]}`. Its probe is fitted on all labels, so
  that it comes out higher than the table's.
- To see that the file loads right: 20 neighbours among 2,000 digits of mnist-small tell
  {100 * about["results"]["digits"]:.1f} % of 2,000 others, which says nothing of its quality.
- Weights' sha256: `{about["sha256"]}`
"""
