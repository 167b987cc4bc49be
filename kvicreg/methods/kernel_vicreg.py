"""Kernel VICReg: invariance, variance and covariance of the two views in a kernel's feature space."""

from kvicreg.losses import KernelVICRegLoss
from kvicreg.methods.siamese import Siamese


class KernelVICReg(Siamese):
    """KernelVICRegLoss of the embeddings of two views."""

    Loss = KernelVICRegLoss
