"""Kernel SimCLR: SimCLR with similarities of a kernel's feature space."""

from kvicreg.losses import KernelSimCLRLoss
from kvicreg.methods.siamese import Siamese


class KernelSimCLR(Siamese):
    """KernelSimCLRLoss of the embeddings of two views."""

    Loss = KernelSimCLRLoss
