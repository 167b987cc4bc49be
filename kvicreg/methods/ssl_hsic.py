"""SSL-HSIC, without its target network: dependence on the image, measured by kernels."""

from kvicreg.losses import SSLHSICLoss
from kvicreg.methods.siamese import Siamese


class SSLHSIC(Siamese):
    """SSLHSICLoss of the embeddings of two views."""

    Loss = SSLHSICLoss
