"""Objectives for self-supervised learning: pure functions and the modules that hold their settings."""

from kvicreg.losses.barlow_twins import BarlowTerms, BarlowTwinsLoss, BarlowTwinsOptions, barlow_twins_terms
from kvicreg.losses.clustering import DINOLoss, DINOOptions, SwAVLoss, SwAVOptions, dino, sinkhorn, swav
from kvicreg.losses.coding_rate import CodingRateLoss, CodingRateOptions
from kvicreg.losses.contrastive import (
    InfoNCELoss,
    InfoNCEOptions,
    KernelSimCLRLoss,
    KernelSimCLROptions,
    NTXentLoss,
    NTXentOptions,
    info_nce,
    kernel_simclr,
    nt_xent,
)
from kvicreg.losses.corinfomax import CorInfoMaxLoss, CorInfoMaxOptions
from kvicreg.losses.frossl import FroSSLLoss, FroSSLOptions
from kvicreg.losses.kerjepa import KerJEPALoss, KerJEPAOptions
from kvicreg.losses.kernel_barlow_twins import (
    KernelBarlowTwinsLoss,
    KernelBarlowTwinsOptions,
    kernel_barlow_twins_terms,
)
from kvicreg.losses.kernel_vicreg import KernelVICRegLoss, KernelVICRegOptions, kernel_vicreg_terms
from kvicreg.losses.lejepa import LeJEPALoss, LeJEPAOptions
from kvicreg.losses.mmcr import MMCRLoss
from kvicreg.losses.prediction import BYOLLoss, KernelBYOLLoss, SimSiamLoss, byol, kernel_byol, simsiam
from kvicreg.losses.ssl_hsic import HSICTerms, SSLHSICLoss, SSLHSICOptions, ssl_hsic_terms
from kvicreg.losses.terms import LossTerms
from kvicreg.losses.vicreg import VICRegLoss, VICRegOptions, vicreg_terms
from kvicreg.losses.visreg import VISRegLoss, VISRegOptions
from kvicreg.losses.vne import VNELoss, VNEOptions
from kvicreg.losses.w_mse import WMSELoss, WMSEOptions

__all__ = [
    "BYOLLoss",
    "BarlowTerms",
    "BarlowTwinsLoss",
    "BarlowTwinsOptions",
    "CodingRateLoss",
    "CodingRateOptions",
    "CorInfoMaxLoss",
    "CorInfoMaxOptions",
    "DINOLoss",
    "DINOOptions",
    "FroSSLLoss",
    "FroSSLOptions",
    "HSICTerms",
    "InfoNCELoss",
    "InfoNCEOptions",
    "KerJEPALoss",
    "KerJEPAOptions",
    "KernelBYOLLoss",
    "KernelBarlowTwinsLoss",
    "KernelBarlowTwinsOptions",
    "KernelSimCLRLoss",
    "KernelSimCLROptions",
    "KernelVICRegLoss",
    "KernelVICRegOptions",
    "LeJEPALoss",
    "LeJEPAOptions",
    "LossTerms",
    "MMCRLoss",
    "NTXentLoss",
    "NTXentOptions",
    "SSLHSICLoss",
    "SSLHSICOptions",
    "SimSiamLoss",
    "SwAVLoss",
    "SwAVOptions",
    "VICRegLoss",
    "VICRegOptions",
    "VISRegLoss",
    "VISRegOptions",
    "VNELoss",
    "VNEOptions",
    "WMSELoss",
    "WMSEOptions",
    "barlow_twins_terms",
    "byol",
    "dino",
    "info_nce",
    "kernel_barlow_twins_terms",
    "kernel_byol",
    "kernel_simclr",
    "kernel_vicreg_terms",
    "nt_xent",
    "simsiam",
    "sinkhorn",
    "ssl_hsic_terms",
    "swav",
    "vicreg_terms",
]
