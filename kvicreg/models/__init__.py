"""Encoders (images -> features), the projector (features -> embeddings), and how they are kept on disk."""

from kvicreg.models.build import build_encoder
from kvicreg.models.cnn import SmallCNN
from kvicreg.models.projector import Projector
from kvicreg.models.resnet import ResNet18
from kvicreg.models.storage import PretrainedEncoder, load_encoder, save_encoder

__all__ = [
    "PretrainedEncoder",
    "Projector",
    "ResNet18",
    "SmallCNN",
    "build_encoder",
    "load_encoder",
    "save_encoder",
]
