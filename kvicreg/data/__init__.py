"""Data sets by name, folders of images, and batched views, all random by address.

data  = load("mnist-small")                  # or a folder of images
views = Views.of(data)
for images, samples, labels in batches(data, 256, seed=0, epoch=0):
    x1, x2 = (views(images, samples, seed=0, epoch=0, view=v) for v in (0, 1))
"""

from kvicreg.data.addresses import permutation, uniform
from kvicreg.data.arrays import ArrayData
from kvicreg.data.batching import batches, count_batches, in_order
from kvicreg.data.catalogue import DATA_SETS, data_root
from kvicreg.data.files import FileData
from kvicreg.data.images import ImageData
from kvicreg.data.intensity import Intensity
from kvicreg.data.loading import load
from kvicreg.data.parts import first_images, hold_out
from kvicreg.data.presets import PRESETS, ViewConfig, view_config
from kvicreg.data.sources import ReadOptions
from kvicreg.data.views import Views, normalisation

__all__ = [
    "DATA_SETS",
    "PRESETS",
    "ArrayData",
    "FileData",
    "ImageData",
    "Intensity",
    "ReadOptions",
    "ViewConfig",
    "Views",
    "batches",
    "count_batches",
    "data_root",
    "first_images",
    "hold_out",
    "in_order",
    "load",
    "normalisation",
    "permutation",
    "uniform",
    "view_config",
]
