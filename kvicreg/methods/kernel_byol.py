"""Kernel BYOL: BYOL with the distance of a kernel's feature space."""

from kvicreg.losses import KernelBYOLLoss
from kvicreg.methods.byol import BYOL


class KernelBYOL(BYOL):
    """BYOL whose predictions and targets are compared in a kernel's feature space."""

    Loss = KernelBYOLLoss
