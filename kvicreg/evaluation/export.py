"""The encoder for others to run: each format is checked against the encoder before it is written."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from kvicreg.evaluation.handover import export_hf, export_timm
from kvicreg.models import PretrainedEncoder
from kvicreg.runs import RunFolder, load_encoder
from kvicreg.runs.zoo import is_of_zoo, located
from kvicreg.storage import replacing

Format = Literal["onnx", "torch", "timm", "hf"]
TOLERANCE = 1e-4  # relative to the largest feature


class Exported(NamedTuple):
    """A file, and the largest difference of its output from the encoder's, relative to the largest feature."""

    path: Path
    error: float


class Deployed(nn.Module):
    """The encoder as it is exported: pixels in [0, 1], already of the encoder's size, to features."""

    def __init__(self, encoder: PretrainedEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        """Images (b, c, s, s), float in [0, 1], to features (b, q); the normalisation is inside."""
        features: Tensor = self.encoder((images - self.encoder.mean) / self.encoder.std)
        return features


def export(run: str | Path, format: Format = "onnx", out: Path | None = None, *, projector: bool = False) -> Exported:
    """Write the run's encoder, batch size free, and compare it on batches of 1, 2 and 5 random images.

    Args:
        run: the run folder, or zoo:NAME.
        format: "onnx", "torch" (a torch.export program), or a folder that "timm" or "hf" (transformers) loads; images
            for these two are normalized by the mean and deviation that lie beside the weights.
        out: file or folder to write; unless given, one in the run folder.
        projector: include the projector; not for "timm" and "hf", which have no place for it.
    """
    if format not in get_args(Format):
        raise ValueError(f"format must be one of {', '.join(get_args(Format))}, got {format!r}")
    if out is None and is_of_zoo(run):
        name = RunFolder(located(run)).export_path(format).name
        raise ValueError(f"{run} comes with kvicreg and is only read: give what to write, such as --out {name}")
    out = Path(out) if out is not None else RunFolder.open(run).export_path(format)
    encoder = load_encoder(run, projector=projector)
    model = Deployed(encoder).eval()
    shape = (encoder.mean.shape[1], encoder.image_size, encoder.image_size)
    if format in ("timm", "hf"):
        if projector:
            raise ValueError(f"projector: format {format} has no place for it; onnx and torch have")
        return Exported(out, _hand_over(encoder, format, out, shape))
    out.parent.mkdir(parents=True, exist_ok=True)
    example = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    with replacing(out) as partial:
        exported = (_onnx if format == "onnx" else _torch)(model, example, partial)
        error = _difference(model, exported, shape)
    return Exported(out, error)


def _hand_over(encoder: PretrainedEncoder, format: str, out: Path, shape: tuple[int, ...]) -> float:
    """Write a folder for another library; returns how far the output of what it loads is from the encoder's."""
    errors: list[float] = []
    write = export_timm if format == "timm" else export_hf
    write(encoder, out, lambda loaded: errors.append(_difference(encoder, loaded, shape)))
    return errors[0]


def _onnx(model: nn.Module, example: Tensor, path: Path) -> Callable[[Tensor], Tensor]:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch.onnx needs it and says so less clearly
    except ImportError as error:
        raise ImportError(f"ONNX needs the package {error.name}: pip install 'kvicreg[export]'") from error
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it misses torchvision, which nothing here needs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            model, (example,), dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False,
            input_names=["images"], output_names=["features"],
        )  # fmt: skip
    program.save(str(path), external_data=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run(None, {"images": images.numpy()})[0])


def _torch(model: nn.Module, example: Tensor, path: Path) -> Callable[[Tensor], Tensor]:
    program = torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    with path.open("wb") as file:
        torch.export.save(program, file)
    with path.open("rb") as file:
        loaded: Callable[[Tensor], Tensor] = torch.export.load(file).module()
    return loaded


@torch.no_grad()
def _difference(model: nn.Module, other: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> float:
    """The largest difference of two outputs, relative to the largest feature; an error where that is too much."""
    errors = []
    for batch in (1, 2, 5):
        images = torch.rand(batch, *shape, generator=torch.Generator().manual_seed(batch))
        expected, features = model(images), other(images)
        if expected.shape != features.shape:
            raise ValueError(
                f"the export gives {tuple(features.shape)}, not {tuple(expected.shape)}: nothing was written"
            )
        errors.append((expected - features).abs().max() / expected.abs().max())
    worst = float(torch.stack(errors).max())  # nan, if there is one
    if not worst <= TOLERANCE:
        raise ValueError(f"the exported encoder differs from the encoder by {worst:.1e}: nothing was written")
    return worst
