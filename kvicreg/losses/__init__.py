"""Objectives for self-supervised learning: pure functions and the modules that hold their settings."""

from kvicreg.losses.barlow_twins import BarlowTerms, BarlowTwinsLoss, BarlowTwinsOptions, barlow_twins_terms
from kvicreg.losses.clustering import DINOLoss, DINOOptions, SwAVLoss, SwAVOptions, dino, sinkhorn, swav
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
from kvicreg.losses.kernel_barlow_twins import (
    KernelBarlowTwinsLoss,
    KernelBarlowTwinsOptions,
    kernel_barlow_twins_terms,
)
from kvicreg.losses.kernel_vicreg import KernelVICRegLoss, KernelVICRegOptions, kernel_vicreg_terms
from kvicreg.losses.prediction import BYOLLoss, KernelBYOLLoss, SimSiamLoss, byol, kernel_byol, simsiam
from kvicreg.losses.ssl_hsic import HSICTerms, SSLHSICLoss, SSLHSICOptions, ssl_hsic_terms
from kvicreg.losses.terms import LossTerms
from kvicreg.losses.vicreg import VICRegLoss, VICRegOptions, vicreg_terms

__all__ = [
    "BYOLLoss",
    "BarlowTerms",
    "BarlowTwinsLoss",
    "BarlowTwinsOptions",
    "DINOLoss",
    "DINOOptions",
    "HSICTerms",
    "InfoNCELoss",
    "InfoNCEOptions",
    "KernelBYOLLoss",
    "KernelBarlowTwinsLoss",
    "KernelBarlowTwinsOptions",
    "KernelSimCLRLoss",
    "KernelSimCLROptions",
    "KernelVICRegLoss",
    "KernelVICRegOptions",
    "LossTerms",
    "NTXentLoss",
    "NTXentOptions",
    "SSLHSICLoss",
    "SSLHSICOptions",
    "SimSiamLoss",
    "SwAVLoss",
    "SwAVOptions",
    "VICRegLoss",
    "VICRegOptions",
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
