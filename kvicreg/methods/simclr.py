"""SimCLR: the other view of an image is told among all other views of the batch."""

from kvicreg.losses import NTXentLoss
from kvicreg.methods.siamese import Siamese


class SimCLR(Siamese):
    """NTXentLoss of the embeddings of two views."""

    Loss = NTXentLoss
