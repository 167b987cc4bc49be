"""Kernel VICReg: invariance, variance and covariance of the two views in a kernel's feature space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from kvicreg.losses import KernelVICRegLoss, KernelVICRegOptions
from kvicreg.methods.base import ManyViews, StepResult
from kvicreg.methods.kernel_method import KernelMethodOptions
from kvicreg.methods.siamese import Siamese
from kvicreg.options import option

__all__ = ["KernelVICReg"]


class KernelVICReg(Siamese):
    """KernelVICRegLoss of the embeddings of two or more views; with the groups (b,) of the images where known.

    Example:
        >>> method = KernelVICReg(SmallCNN(), Projector(512), KernelVICRegLoss("rbf"))
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['covariance', 'invariance', 'variance']
    """

    Loss = KernelVICRegLoss

    def forward(
        self, views: Sequence[Tensor], step: int, labels: Tensor | None = None, groups: Tensor | None = None
    ) -> StepResult:
        return self.step(views, step) if groups is None else self.step(views, step, groups=groups)


@dataclass(frozen=True, kw_only=True)
class KernelVICRegMethodOptions(KernelMethodOptions, name="kernel-vicreg"):
    """Settings of Kernel VICReg."""

    method = KernelVICReg
    loss: KernelVICRegOptions = field(default_factory=KernelVICRegOptions)
    many_views: ManyViews = field(default_factory=ManyViews)
    groups: str | None = option(
        None, "Group-fair terms: a file with a group per training image, FILE.csv:COLUMN, or a column of groups.csv."
    )

    learns_mixtures = True

    def __post_init__(self) -> None:
        super().__post_init__()
        needs = {
            "group_weight": ("groups", self.groups is not None),
            "group_bandwidth": ("groups", self.groups is not None),
            "learn_mixture_by": ("learn_mixture", getattr(self.kernel, "learn_mixture", False)),
        }
        for name, (other, given) in needs.items():
            if not given and getattr(self.loss, name) != getattr(KernelVICRegOptions, name):
                raise ValueError(f"{name} is read only with {other}, which is not given")

    def resolved(self, classes: int | None = None) -> KernelVICRegMethodOptions:
        loss = self.loss
        if loss.spectrum is None and self.many_views.count > 2:  # one for all would take a block for any two views
            loss = replace(loss, spectrum="per-view")
        return replace(self, loss=loss.resolved())

    @property
    def label(self) -> str:
        return self.kernel.choice.replace("*", "")
