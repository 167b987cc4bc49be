"""What to evaluate."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.data import ReadOptions
from kvicreg.options import Options, option

__all__ = ["EvaluationOptions"]


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(Options):
    """What to evaluate; each field is a flag of `kvicreg evaluate`."""

    on: str | None = option(
        None,
        "Evaluate on other data than the run's own (transfer): a name or a folder; channels and sizes are adapted.",
    )
    reading: ReadOptions = field(default_factory=ReadOptions)
    projector: bool = option(False, "Also evaluate the projector's output.")
    fine_tune: bool = option(False, "Also fine-tune the whole encoder with all labels, 10 epochs.")
    supervised: bool = option(
        False, "Also train the same architecture with labels from scratch, for as many epochs as the run."
    )
    groups: str | None = option(
        None,
        "Results by group: a text file with a name per test image, FILE.csv:COLUMN, or a column of groups.csv there.",
    )
    robustness_images: int | None = option(
        None,
        "Test images used for the robustness curves; by default 200 to 2000, so that they cost no more than the "
        "features of all images; 0 for none.",
        at_least=0,
    )
    map_images: int = option(3000, "Test images on the UMAP; 0 for none.", at_least=0)
    seed: int = option(
        0, "Seed of probes, splits, intervals, the random encoder and the map.", at_least=0, at_most=2**31 - 1
    )
    batch_size: int = option(256, "Images per batch when features are computed.", at_least=1)
    device: str = option("auto", "cpu, cuda, ...; auto takes a GPU when there is one.")
    workers: int = option(0, "Processes that decode image files.", at_least=0)
    data_root: str | None = option(
        None, "Where downloaded data sets live; by default the run's, KVICREG_DATA or the user's cache."
    )
