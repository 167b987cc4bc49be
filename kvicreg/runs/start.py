"""What an encoder starts from: published weights, a run, or a file of anybody's; and the normalization they expect."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from kvicreg.data.given import given_name
from kvicreg.data.images import kind_of
from kvicreg.models.checkpoints import read_checkpoint
from kvicreg.models.cnn import AutoOptions
from kvicreg.models.encoder import Normalization
from kvicreg.models.start import start_from
from kvicreg.runs.settings import ModelOptions, Settings
from kvicreg.runs.stored import DESCRIPTION, WEIGHTS, StoredEncoder, check_path, is_checkpoint
from kvicreg.runs.zoo import located

__all__ = ["check_start", "fill_with_start", "like_start", "start_normalization", "unlike_start"]


def fill_with_start(encoder: nn.Module, model: ModelOptions) -> list[str]:
    """Fill an encoder with the weights that the settings start from, if any; sentences on what fitted."""
    if model.pretrained:
        source = f"the published weights of {model.encoder.choice}"
        return [start_from(encoder, model.encoder.published(), source, model.encoder)]
    if model.init is None:
        return []
    return [start_from(encoder, _weights(model.init), model.init, model.encoder)]


def check_start(model: ModelOptions) -> None:
    """Refuse weights to start from that are not there."""
    if model.init is not None:
        check_path(model.init)


def like_start(settings: Settings) -> Settings:
    """The settings with the encoder of the run that they start from, and its grey images, where they leave it open."""
    model = settings.model
    is_open = isinstance(model.encoder, AutoOptions) and not model.encoder.given()
    if not is_open or model.init is None or not _is_of_a_run(model.init):
        return settings
    about = StoredEncoder(model.init).description()["architecture"]
    if about["name"] == "custom":
        return settings
    network = {name: value for name, value in about.items() if name not in ("name", "in_channels", "image_size")}
    if about["in_channels"] == 1 and settings.data.channels is None and given_name(settings.data.source) is None:
        network["channels"] = 1  # files are read in colour otherwise, to which a grey encoder can't be adapted
    return settings.replace(encoder=about["name"], **network)


def start_normalization(model: ModelOptions, channels: int) -> Normalization | None:
    """The normalization that the starting weights expect; None without such weights, or where nobody can tell.

    For grey images it is the mean over the channels; for more channels than three nobody can tell.
    """
    if not model.has_start:
        return None
    if model.init is not None and _is_of_a_run(model.init):
        about = StoredEncoder(model.init).description()
        normalization: Normalization | None = Normalization(tuple(about["mean"]), tuple(about["std"]))
    else:
        normalization = model.encoder.normalization()
    if normalization is None or len(normalization.mean) == channels:
        return normalization
    if channels != 1:
        return None
    return Normalization(*((round(sum(values) / len(values), 4),) for values in normalization))


def unlike_start(model: ModelOptions, shape: tuple[int, int, int]) -> list[str]:
    """A sentence where images (c, h, w) are unlike those of the run that the settings start from.

    A run that is resumed does not need those weights any more: they may be gone.
    """
    if model.init is None or not located(model.init).exists() or not _is_of_a_run(model.init):
        return []
    about = StoredEncoder(model.init).description()
    of_start = (len(about["mean"]), about["image_size"], about["image_size"])
    if shape == of_start:
        return []
    return [f"{model.init} has been trained on {kind_of(of_start)}; these are read as {kind_of(shape)}."]


def _weights(path: str) -> dict[str, Tensor]:
    """The weights at a path."""
    if not _is_of_a_run(path):
        return read_checkpoint(path)
    stored = StoredEncoder(path)
    stored.warn_if_unfinished()
    return stored.weights()


def _is_of_a_run(path: str) -> bool:
    """Whether a run of kvicreg has left the weights at a path, or is to have left them, and their description."""
    file = Path(path)
    return not file.is_file() or is_checkpoint(file) or (file.name == WEIGHTS and file.with_name(DESCRIPTION).is_file())
