"""Runs: the settings they are made from, and the folders they are on disk."""

from kvicreg.runs.config import load_settings
from kvicreg.runs.encoder import load_encoder, save_encoder
from kvicreg.runs.folder import RunFolder
from kvicreg.runs.settings import Settings

__all__ = ["RunFolder", "Settings", "load_encoder", "load_settings", "save_encoder"]
