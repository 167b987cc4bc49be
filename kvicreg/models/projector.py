"""The projector: an MLP from features to the embeddings the loss sees; thrown away after pretraining."""

from __future__ import annotations

from torch import nn

from kvicreg.models.norm import norm1d


class Projector(nn.Sequential):
    """Features (b, inputs) to embeddings (b, outputs) by `layers` linear layers.

    All but the last are followed by normalisation and ReLU; no layer before a normalisation has a bias.

    Args:
        inputs: width of the encoder's features.
        hidden: width of the hidden layers.
        outputs: width of the embeddings.
        layers: number of linear layers, at least 1.
        norm: "batch", or "group" for a projector without batch statistics.
    """

    def __init__(
        self, inputs: int, hidden: int = 1024, outputs: int = 1024, layers: int = 3, norm: str = "batch"
    ) -> None:
        if layers < 1:
            raise ValueError(f"layers must be at least 1, got {layers}")
        modules: list[nn.Module] = []
        for i in range(layers - 1):
            width = inputs if i == 0 else hidden
            modules += [nn.Linear(width, hidden, bias=False), norm1d(norm, hidden), nn.ReLU(inplace=True)]
        modules.append(nn.Linear(hidden if layers > 1 else inputs, outputs))
        super().__init__(*modules)
        self.description = {
            "inputs": inputs,
            "hidden": hidden,
            "outputs": outputs,
            "layers": layers,
            "norm": norm,
        }
        self.output_dim = outputs
