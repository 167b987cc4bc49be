"""See, search and clean a folder of images with an encoder: neighbours, duplicates, outliers, labels, kernels.

images = open_images("runs/first", "photos/")
images.search(image="cat.jpg", count=10)
duplicate_groups(images, threshold=0.95)
"""

from kvicreg.explore.collection import Collection, open_images
from kvicreg.explore.duplicates import duplicate_groups, duplicate_pairs, leaks
from kvicreg.explore.encoders import open_encoder
from kvicreg.explore.index import Index
from kvicreg.explore.kernel import KernelView
from kvicreg.explore.labelling import LabelFile, Learner
from kvicreg.explore.lists import collect, write_table
from kvicreg.explore.problems import file_problems
from kvicreg.explore.scores import coreset, outlier_scores

__all__ = [
    "Collection",
    "Index",
    "KernelView",
    "LabelFile",
    "Learner",
    "collect",
    "coreset",
    "duplicate_groups",
    "duplicate_pairs",
    "file_problems",
    "leaks",
    "open_encoder",
    "open_images",
    "outlier_scores",
    "write_table",
]
