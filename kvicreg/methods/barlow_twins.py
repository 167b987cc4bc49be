"""Barlow Twins: the cross-correlation matrix of the two views is driven to the identity."""

from kvicreg.losses import BarlowTwinsLoss
from kvicreg.methods.siamese import Siamese


class BarlowTwins(Siamese):
    """BarlowTwinsLoss of the embeddings of two views."""

    Loss = BarlowTwinsLoss
