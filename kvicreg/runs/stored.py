"""Where the encoder of a run lies: in the files that a finished training leaves, or in a checkpoint."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kvicreg.models.weights import fill, one_line, read_safetensors, serialized
from kvicreg.runs.zoo import located

__all__ = [
    "CONFIG", "DESCRIPTION", "PROJECTOR", "START", "WEIGHTS", "StoredEncoder", "Which", "check_path", "checkpoint_path",
    "has_encoder", "is_checkpoint", "run_and_checkpoint",
]  # fmt: skip

CONFIG = "config.yaml"
DESCRIPTION, WEIGHTS, PROJECTOR = "encoder.json", "encoder.safetensors", "projector.safetensors"
START = "start.safetensors"
Which = Literal["last", "best"]
Part = Literal["encoder", "projector"]


def has_encoder(folder: Path) -> bool:
    """Whether a training has left its encoder here."""
    return (folder / DESCRIPTION).is_file() and (folder / WEIGHTS).is_file()


def checkpoint_path(folder: Path, which: Which) -> Path:
    """The checkpoint to resume from, or the one of the best epoch."""
    return folder / "checkpoints" / f"{which}.ckpt"


def run_and_checkpoint(path: str | Path) -> tuple[Path, Which | None]:
    """The run folder that a path names, and which of its checkpoints, if it is that of one."""
    path = Path(path)
    for which in ("last", "best"):
        if path == checkpoint_path(path.parent.parent, which):
            return path.parent.parent, which
    return path, None


def check_path(path: str | Path) -> None:
    """Refuse a path where nothing is."""
    if not located(path).exists():
        raise FileNotFoundError(f"there is no file or folder {path}")


def is_checkpoint(file: Path) -> bool:
    """Whether a file is a checkpoint of a training by kvicreg, and not by another program."""
    if file.suffix != ".ckpt" or not file.is_file():
        return False
    try:
        content = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except Exception:  # damaged, of another program or of an earlier version: whoever reads it says so
        return file.parent.name == checkpoint_path(Path(), "last").parent.name
    return isinstance(content, dict) and "batches_done" in content


class StoredEncoder:
    """The encoder of a run on disk.

    Args:
        path: a run folder, a file of its encoder, a checkpoint, or zoo:NAME.
        which: the checkpoint to read; None for the encoder of a finished run, and the last checkpoint of another.
    """

    def __init__(self, path: str | Path, which: Which | None = None) -> None:
        folder, named = run_and_checkpoint(located(path))
        which = which or named
        check_path(folder)
        self.checkpoint: Path | None = None
        if folder.suffix == ".ckpt":  # one that lies elsewhere
            self.checkpoint, folder = folder, folder.parent
        self.folder = folder.parent if folder.is_file() else folder
        if self.checkpoint is None and (which is not None or not has_encoder(self.folder)):
            self.checkpoint = checkpoint_path(self.folder, which or "last")
            of_a_run = (self.folder / CONFIG, self.folder / DESCRIPTION, self.checkpoint)
            if not any(file.is_file() for file in of_a_run):
                raise FileNotFoundError(f"{self.folder} is not a run folder: it has no {CONFIG} and no {DESCRIPTION}")
            if not self.checkpoint.is_file():
                raise FileNotFoundError(
                    f"{self.folder} has no {DESCRIPTION} with {WEIGHTS}, and no checkpoint {self.checkpoint.name}: "
                    "its training has not finished a step; go on with kvicreg train --resume"
                )
        self.is_finished = has_encoder(self.folder)

    def description(self) -> dict[str, Any]:
        """What the encoder is: its architecture, image size and normalization."""
        if self.checkpoint is not None:
            content = self._content()
            where = f"{self.checkpoint.name}, epoch {int(content['epoch']) + 1}, step {int(content['global_step'])}"
            return {**content["encoder"], "checkpoint": where}
        file = self.folder / DESCRIPTION
        try:
            description = dict(json.loads(file.read_text()))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{file} is damaged ({one_line(error)}); train the run again") from error
        missing = [n for n in ("architecture", "feature_dim", "image_size", "mean", "std") if n not in description]
        if missing:
            raise ValueError(f"{file} lacks {', '.join(missing)}; it was not written by kvicreg")
        return description

    def fill(self, module: nn.Module, part: Part = "encoder") -> None:
        """Fill a module with the weights of the encoder or of the projector."""
        fill(module, self.weights(part), self.checkpoint or self._file(part))

    def weights(self, part: Part = "encoder") -> dict[str, Tensor]:
        """The weights of the encoder or of the projector by name; their moving average where the run has one."""
        if self.checkpoint is None:
            return read_safetensors(self._file(part))
        state = self._content()["state_dict"]
        average = f"average.copies.{0 if part == 'encoder' else 1}."
        prefix = average if any(name.startswith(average) for name in state) else f"method.{part}."
        return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}

    def sha256(self) -> str:
        """A hash of the encoder's weights."""
        if self.checkpoint is None:
            return hashlib.sha256(self._file("encoder").read_bytes()).hexdigest()
        return hashlib.sha256(serialized(self.weights())).hexdigest()

    def warn_if_unfinished(self) -> None:
        """Say so where the weights are those of a checkpoint, not of a finished run."""
        if self.checkpoint is not None:
            what = (
                "has not finished: this is the encoder of its checkpoint" if not self.is_finished else "by checkpoint"
            )
            logging.getLogger("kvicreg").warning("%s %s %s.", self.folder, what, self.description()["checkpoint"])

    def _file(self, part: Part) -> Path:
        return self.folder / (WEIGHTS if part == "encoder" else PROJECTOR)

    def _content(self) -> dict[str, Any]:
        assert self.checkpoint is not None
        try:
            content = torch.load(self.checkpoint, map_location="cpu", weights_only=True, mmap=True)
        except OSError:
            raise
        except Exception as error:  # torch, zipfile and pickle raise whatever the damage makes them stumble over
            raise ValueError(f"{self.checkpoint} is damaged ({one_line(error)})") from error
        needed = {"state_dict": dict, "encoder": dict, "epoch": int, "global_step": int}
        if not isinstance(content, dict) or not all(isinstance(content.get(k), t) for k, t in needed.items()):
            raise ValueError(
                f"{self.checkpoint} has no encoder of kvicreg, or of an earlier version; resume its run first"
            )
        return content
