"""Every loss of views, on every way of computing it."""

from kvicreg import KernelVICRegLoss, VICRegLoss, kernels, losses
from kvicreg.operators import Nystrom, RandomFourier

LOSSES = {
    "gram": lambda **more: KernelVICRegLoss("rbf", **more),
    "features": lambda **more: KernelVICRegLoss("linear", "paper", **more),
    "narrow": lambda **more: KernelVICRegLoss("rbf", "paper", approximation=RandomFourier(6), **more),
    "landmarks": lambda **more: KernelVICRegLoss("rbf", approximation=Nystrom(5), **more),
    "unbounded": lambda **more: KernelVICRegLoss("polynomial", approximation=Nystrom(5), **more),
    "shared gram": lambda **more: KernelVICRegLoss("rbf", spectrum="shared", **more),
    "shared features": lambda **more: KernelVICRegLoss("linear", spectrum="shared", **more),
    "learnt mixture": lambda **more: KernelVICRegLoss(
        kernels.Mixture([kernels.RBF(), kernels.Linear()], learnable=True), **more
    ).double(),
    "smoothed": lambda **more: KernelVICRegLoss(kernels.RBF("smoothed"), **more).double(),
    "smoothed frossl": lambda **more: losses.FroSSLLoss(kernels.RBF("smoothed"), **more).double(),
    "smoothed simclr": lambda **more: losses.KernelSimCLRLoss(kernels.RBF("smoothed"), **more).double(),
    "smoothed barlow twins": lambda **more: losses.KernelBarlowTwinsLoss(kernels.RBF("smoothed"), **more).double(),
    "smoothed ssl-hsic": lambda **more: losses.SSLHSICLoss(kernels.RBF("smoothed"), **more).double(),
    "vicreg": lambda **more: VICRegLoss(**more),
    "vicreg as printed": lambda **more: VICRegLoss("paper", **more),
    "nt-xent": losses.NTXentLoss,
    "kernel simclr": lambda **more: losses.KernelSimCLRLoss("rbf", **more),
    "kernel simclr by landmarks": lambda **more: losses.KernelSimCLRLoss("rbf", approximation=Nystrom(5), **more),
    "barlow twins": losses.BarlowTwinsLoss,
    "wide barlow twins": lambda **more: losses.KernelBarlowTwinsLoss("rbf", approximation=Nystrom(16), **more),
    "kernel barlow twins": lambda **more: losses.KernelBarlowTwinsLoss("rbf", **more),
    "swav": losses.SwAVLoss,
    "ssl-hsic": losses.SSLHSICLoss,
    "ssl-hsic by landmarks": lambda **more: losses.SSLHSICLoss("rbf", approximation=Nystrom(5), **more),
    "coding rate": losses.CodingRateLoss,
    "corinfomax": losses.CorInfoMaxLoss,
    "frossl": lambda **more: losses.FroSSLLoss("rbf", **more),
    "mmcr": losses.MMCRLoss,
    "vne": losses.VNELoss,
    "lejepa": losses.LeJEPALoss,
    "kerjepa": losses.KerJEPALoss,
    "visreg": losses.VISRegLoss,
    "w-mse": losses.WMSELoss,
}
