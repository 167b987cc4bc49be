"""SSL-HSIC, without its target network: dependence on the image, measured by kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.kernels.options import KERNELS, KernelOptions
from kvicreg.losses import SSLHSICLoss, SSLHSICOptions
from kvicreg.methods.kernel_method import KernelMethodOptions
from kvicreg.methods.siamese import Siamese
from kvicreg.options import choice

__all__ = ["SSLHSIC"]


class SSLHSIC(Siamese):
    """SSLHSICLoss of the embeddings of two views.

    Example:
        >>> method = SSLHSIC(SmallCNN(), Projector(512), SSLHSICLoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['hsic_zy', 'hsic_zz']
    """

    Loss = SSLHSICLoss


@dataclass(frozen=True, kw_only=True)
class SSLHSICMethodOptions(KernelMethodOptions, name="ssl-hsic"):
    """Settings of SSL-HSIC."""

    method = SSLHSIC
    kernel: KernelOptions = choice(
        "inverse_multiquadric", KERNELS, "Kernel of the embeddings at unit length; the published one by default."
    )
    loss: SSLHSICOptions = field(default_factory=SSLHSICOptions)
