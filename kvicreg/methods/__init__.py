"""Self-supervised methods: one file each, an encoder with its heads, its loss and its settings."""

from kvicreg.methods.barlow_twins import BarlowTwins
from kvicreg.methods.base import METHODS, ManyViews, Method, MethodOptions, StepResult
from kvicreg.methods.byol import BYOL
from kvicreg.methods.coding_rate import CodingRate
from kvicreg.methods.corinfomax import CorInfoMax
from kvicreg.methods.dino import DINO
from kvicreg.methods.frossl import FroSSL
from kvicreg.methods.kerjepa import KerJEPA
from kvicreg.methods.kernel_barlow_twins import KernelBarlowTwins
from kvicreg.methods.kernel_byol import KernelBYOL
from kvicreg.methods.kernel_simclr import KernelSimCLR
from kvicreg.methods.kernel_vicreg import KernelVICReg
from kvicreg.methods.lejepa import LeJEPA
from kvicreg.methods.mmcr import MMCR
from kvicreg.methods.moco import MoCo
from kvicreg.methods.simclr import SimCLR
from kvicreg.methods.simsiam import SimSiam
from kvicreg.methods.ssl_hsic import SSLHSIC
from kvicreg.methods.supervised import Supervised
from kvicreg.methods.swav import SwAV
from kvicreg.methods.vicreg import VICReg
from kvicreg.methods.visreg import VISReg
from kvicreg.methods.vne import VNE
from kvicreg.methods.w_mse import WMSE

__all__ = [
    "BYOL",
    "DINO",
    "METHODS",
    "MMCR",
    "SSLHSIC",
    "VNE",
    "WMSE",
    "BarlowTwins",
    "CodingRate",
    "CorInfoMax",
    "FroSSL",
    "KerJEPA",
    "KernelBYOL",
    "KernelBarlowTwins",
    "KernelSimCLR",
    "KernelVICReg",
    "LeJEPA",
    "ManyViews",
    "Method",
    "MethodOptions",
    "MoCo",
    "SimCLR",
    "SimSiam",
    "StepResult",
    "Supervised",
    "SwAV",
    "VICReg",
    "VISReg",
]
