"""The projector: an MLP from features to the embeddings the loss sees; thrown away after pretraining."""

from __future__ import annotations

from torch import Tensor, nn

from kvicreg.models.norm import norm1d


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
