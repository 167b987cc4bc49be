"""What every self-supervised method is to the training loop, and what its settings are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from torch import Tensor, nn

from kvicreg.options import Family, Options, option

__all__ = ["METHODS", "ManyViews", "Method", "MethodOptions", "StepResult"]

METHODS: Family[MethodOptions] = Family("method", "kvicreg.methods")
"""The methods by name: `--method NAME`. A method joins them with the options that name it."""


@dataclass(frozen=True, kw_only=True)
class ManyViews(Options):
    """How many views of each image a method sees whose loss takes any number of them."""

    views_per_image: int = option(2, "Views of each image.", at_least=2)
    local_crops: int = option(0, "Smaller crops of each image beside its views, at half the side.", at_least=0)
    local_crop_area: float = option(
        0.4, "Largest part of the area that a smaller crop keeps.", above=0, at_most=1, needs="local_crops"
    )

    @property
    def count(self) -> int:
        """All of them."""
        return self.views_per_image + self.local_crops


@dataclass(frozen=True, kw_only=True)
class MethodOptions(Options):
    """Settings of a method.

    A new method, in a file of its own in this folder, names its class as `method`, holds the options of its loss as
    `loss` where that has any, `ManyViews` as `many_views` where that takes more than two, and says in `heads` what else
    its class takes.
    """

    family: ClassVar[Family[Any]] = METHODS
    method: ClassVar[type[Method]]

    def loss_arguments(self, seed: int) -> dict[str, Any]:
        """What the class of the loss is made with; `seed` is of what it draws."""
        options: Options | None = getattr(self, "loss", None)
        return {} if options is None else options.flat()

    def heads(self, norm: str) -> dict[str, Any]:
        """What the method's class takes beside encoder, projector and loss; further heads are normalized by `norm`."""
        return {}

    def build(self, encoder: nn.Module, projector: nn.Module, *, norm: str = "batch", seed: int = 0) -> Method:
        """The method with its heads and its loss.

        Args:
            encoder: images (b, c, h, w) to features, with `.feature_dim`.
            projector: features to embeddings, with `.output_dim`.
            norm: normalization of further heads, "batch" or "group".
            seed: of what the loss draws, such as landmarks.
        """
        if not hasattr(self, "method"):
            raise TypeError(f"{type(self).__name__} must name its class as method, or define build")
        return self.method(encoder, projector, self.method.Loss(**self.loss_arguments(seed)), **self.heads(norm))

    def resolved(self, classes: int | None = None) -> Self:
        """The settings with every default written out; `classes` is how many the data have."""
        return self

    @property
    def label(self) -> str:
        """What tells runs of this method apart in the name of a folder."""
        return self.name

    def describe(self) -> str:
        """The method in words."""
        return self.name

    @property
    def views_seen(self) -> ManyViews:
        """How many views of each image the method sees: two, unless it has these settings as `many_views`."""
        views: ManyViews = getattr(self, "many_views", ManyViews())
        return views


class StepResult(NamedTuple):
    """One step's outcome. Everything but the loss is detached.

    loss: scalar to descend. terms: scalars to log. embeddings: (b, p) of the first view, for the collapse alarm.
    """

    loss: Tensor
    terms: dict[str, Tensor]
    embeddings: Tensor


class Method(nn.Module):
    """An encoder with its heads and its loss.

    A method with a momentum encoder, a queue or a predictor keeps them as submodules and buffers, so that checkpoints
    hold them, reads views in `step` and moves averages in `after_step`.

    Attributes:
        encoder: images (b, c, h, w) to features (b, q), what pretraining is for.
        projector: features to embeddings (b, p), what the loss sees.
        loss: what it minimises; made by `Loss` with its defaults unless given.

    Example:
        >>> class Agree(Method):
        ...     Loss = nn.MSELoss
        ...     def step(self, views, step):
        ...         z1, z2 = (self.embed(view) for view in views)
        ...         return StepResult(self.loss(z1, z2), {}, z1.detach())
        >>> Agree(SmallCNN(), Projector(512))(torch.zeros(2, 8, 1, 28, 28), step=0).loss
        tensor(0., grad_fn=<MseLossBackward0>)
    """

    Loss: ClassVar[type[nn.Module]]
    """The class of its loss."""

    encoder: nn.Module
    projector: nn.Module
    loss: Any

    @property
    def least_batch(self) -> int:
        """The fewest images that a step can be taken with."""
        return 2

    def __init__(self, encoder: nn.Module, projector: nn.Module, loss: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder, self.projector = encoder, projector
        self.loss = self.Loss() if loss is None else loss

    def embed(self, view: Tensor) -> Tensor:
        """The embeddings (b, p) of a view (b, c, s, s)."""
        embeddings: Tensor = self.projector(self.encoder(view))
        return embeddings

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        """The loss of a batch's views, each (b, c, s, s), at the given step of training."""
        raise NotImplementedError

    def after_step(self, step: int, total_steps: int) -> None:
        """Called when the optimizer has stepped: the place for moving averages and schedules."""

    def forward(self, views: Sequence[Tensor], step: int, labels: Tensor | None = None) -> StepResult:
        """`step`, under the name that DistributedDataParallel and torch.compile wrap; only a control sees labels."""
        return self.step(views, step)
