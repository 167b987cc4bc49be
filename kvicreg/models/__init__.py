"""Encoders (images -> features) and the projector (features -> embeddings)."""

from kvicreg.models.cnn import SmallCNN
from kvicreg.models.encoder import build_encoder
from kvicreg.models.pretrained import PretrainedEncoder
from kvicreg.models.projector import Projector
from kvicreg.models.resnet import ResNet18, ResNet50

__all__ = ["PretrainedEncoder", "Projector", "ResNet18", "ResNet50", "SmallCNN", "build_encoder"]
