"""FroSSL: the Frobenius norm of the views' second moment is made small."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import FroSSLLoss, FroSSLOptions
from kvicreg.methods.base import ManyViews
from kvicreg.methods.kernel_method import LinearMethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["FroSSL"]


class FroSSL(Siamese):
    """FroSSLLoss of the embeddings of two or more views.

    Example:
        >>> method = FroSSL(SmallCNN(), Projector(512), FroSSLLoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['invariance', 'log_norm']
    """

    Loss = FroSSLLoss


@dataclass(frozen=True, kw_only=True)
class FroSSLMethodOptions(LinearMethodOptions, name="frossl"):
    """Settings of FroSSL."""

    method = FroSSL
    loss: FroSSLOptions = field(default_factory=FroSSLOptions)
    many_views: ManyViews = field(default_factory=ManyViews)
