"""Kernel Barlow Twins: the cross-covariance operator of the two views is driven to the identity."""

from kvicreg.losses import KernelBarlowTwinsLoss
from kvicreg.methods.siamese import Siamese


class KernelBarlowTwins(Siamese):
    """KernelBarlowTwinsLoss of the embeddings of two views."""

    Loss = KernelBarlowTwinsLoss
