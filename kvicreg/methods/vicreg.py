"""VICReg: the same three terms on the embeddings themselves; the baseline Kernel VICReg is compared with."""

from kvicreg.losses import VICRegLoss
from kvicreg.methods.siamese import Siamese


class VICReg(Siamese):
    """VICRegLoss of the embeddings of two views."""

    Loss = VICRegLoss
