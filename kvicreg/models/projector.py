"""The projector: an MLP from features to the embeddings the loss sees; thrown away after pretraining."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from torch import Tensor, nn

from kvicreg.models.norm import norm1d
from kvicreg.options import Options, option

__all__ = ["Projector", "ProjectorOptions", "output_dim"]


@dataclass(frozen=True, kw_only=True)
class ProjectorOptions(Options):
    """Settings of the projector."""

    projector_layers: int = option(3, "Linear layers of the projector.", above=0)
    projector_hidden: int = option(1024, "Width of the projector's hidden layers.", above=0)
    projector_outputs: int = option(1024, "Width of the embeddings.", above=0)
    projector_final: Literal["none", "batch", "length"] = option(
        "none",
        "What fixes the embeddings' scale: nothing, each coordinate over the batch, or each one's length.",
    )

    def build(self, inputs: int, norm: str = "batch") -> Projector:
        """The projector of an encoder with that many features."""
        return Projector(
            inputs, self.projector_hidden, self.projector_outputs, self.projector_layers, norm, self.projector_final
        )


class UnitLength(nn.Module):
    """Rows (b, p) at length sqrt(p): a mean square of 1 in every embedding."""

    def forward(self, z: Tensor) -> Tensor:
        return nn.functional.normalize(z, dim=1) * z.shape[1] ** 0.5


class Projector(nn.Sequential):
    """Features (b, inputs) to embeddings (b, outputs) by `layers` linear layers.

    All but the last are followed by normalisation and ReLU; no layer before a normalisation has a bias.

    Args:
        inputs: width of the encoder's features.
        hidden: width of the hidden layers.
        outputs: width of the embeddings.
        layers: number of linear layers, at least 1.
        norm: "batch", or "group" for a projector without batch statistics.
        final: what brings the embeddings to one scale: "none", "batch" (each coordinate to mean 0 and variance 1
            over the batch) or "length" (each embedding to length sqrt(outputs)).

    Example:
        >>> Projector(512, hidden=256, outputs=128)(torch.randn(4, 512)).shape
        torch.Size([4, 128])
    """

    def __init__(
        self,
        inputs: int,
        hidden: int = 1024,
        outputs: int = 1024,
        layers: int = 3,
        norm: str = "batch",
        final: str = "none",
    ) -> None:
        if layers < 1:
            raise ValueError(f"layers must be at least 1, got {layers}")
        if final not in ("none", "batch", "length"):
            raise ValueError(f"final must be 'none', 'batch' or 'length', got {final!r}")
        modules: list[nn.Module] = []
        for i in range(layers - 1):
            width = inputs if i == 0 else hidden
            modules += [nn.Linear(width, hidden, bias=False), norm1d(norm, hidden), nn.ReLU(inplace=True)]
        modules.append(nn.Linear(hidden if layers > 1 else inputs, outputs))
        if final != "none":
            modules.append(nn.BatchNorm1d(outputs, affine=False) if final == "batch" else UnitLength())
        super().__init__(*modules)
        self.description = {
            "inputs": inputs,
            "hidden": hidden,
            "outputs": outputs,
            "layers": layers,
            "norm": norm,
            "final": final,
        }
        self.output_dim = outputs


def output_dim(projector: nn.Module) -> int:
    """The width of a projector's embeddings, which it tells as `.output_dim`."""
    return int(cast(int, projector.output_dim))
