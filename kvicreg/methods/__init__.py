"""Self-supervised methods: one file each, an encoder with its heads, its loss and its settings."""

from kvicreg.methods.barlow_twins import BarlowTwins
from kvicreg.methods.base import METHODS, Method, MethodOptions, StepResult
from kvicreg.methods.byol import BYOL
from kvicreg.methods.dino import DINO
from kvicreg.methods.kernel_barlow_twins import KernelBarlowTwins
from kvicreg.methods.kernel_byol import KernelBYOL
from kvicreg.methods.kernel_simclr import KernelSimCLR
from kvicreg.methods.kernel_vicreg import KernelVICReg
from kvicreg.methods.moco import MoCo
from kvicreg.methods.simclr import SimCLR
from kvicreg.methods.simsiam import SimSiam
from kvicreg.methods.ssl_hsic import SSLHSIC
from kvicreg.methods.supervised import Supervised
from kvicreg.methods.swav import SwAV
from kvicreg.methods.vicreg import VICReg

__all__ = [
    "BYOL",
    "DINO",
    "METHODS",
    "SSLHSIC",
    "BarlowTwins",
    "KernelBYOL",
    "KernelBarlowTwins",
    "KernelSimCLR",
    "KernelVICReg",
    "Method",
    "MethodOptions",
    "MoCo",
    "SimCLR",
    "SimSiam",
    "StepResult",
    "Supervised",
    "SwAV",
    "VICReg",
]
