"""Replay: repeat the batch that stopped a training, from its last checkpoint, and tell where it began."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from rich.console import Console
from torch import Tensor, nn

from kvicreg.data import ImageData
from kvicreg.losses.terms import NotFiniteViews
from kvicreg.storage import write_atomically
from kvicreg.training.build import build_data, build_groups, build_method, build_views
from kvicreg.training.checkpoint import AtomicCheckpointIO
from kvicreg.training.config import load_config
from kvicreg.training.faults import clear_errors
from kvicreg.training.guard import is_finite, read_fault
from kvicreg.training.module import SelfSupervised


class _Reached(Exception):
    """The batch has been repeated."""


class Magnifier(pl.Callback):
    """Trains up to the failed batch without writing, and notes the first thing that is not finite on the way."""

    def __init__(self, fault: dict[str, Any], *, scaled_gradients: bool) -> None:
        self.fault = fault
        self.scaled_gradients = scaled_gradients  # of float16, where infinite ones are usual and left out
        self.found: dict[str, Any] = {"gradient": None, "module": None, "weights": [], "after": []}

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        if module.batches_done != self.fault["batch"]:
            return
        images, samples = batch[0].cpu(), batch[1].cpu()
        place = {int(sample): row for row, sample in enumerate(samples)}
        rows = [place.get(int(sample)) for sample in self.fault["samples"]]
        same = all(row is not None for row in rows) and images[rows].equal(self.fault["images"])
        self.found["batch_is_the_same"] = bool(same)
        self.found["weights"] = self._broken_weights(module)
        for name, part in module.method.named_modules():
            if not list(part.children()):
                part.register_forward_hook(self._hook(name or "method"))

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(part: nn.Module, inputs: Any, output: Any) -> None:
            if self.found["module"] is None and isinstance(output, Tensor) and not is_finite(output):
                self.found["module"] = name

        return look

    def on_before_backward(self, trainer: pl.Trainer, module: Any, loss: Tensor) -> None:
        if module.batches_done - 1 == self.fault["batch"]:
            value = float(loss.detach())
            self.found["loss"] = value if math.isfinite(value) else str(value)
            if not math.isfinite(value):
                raise _Reached

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        if module.batches_done - 1 == self.fault["batch"]:
            self.found["after"] = self._broken_weights(module)
            raise _Reached

    def _broken_weights(self, module: Any) -> list[str]:
        return [name for name, value in module.method.state_dict().items() if not is_finite(value)]

    def on_before_optimizer_step(self, trainer: pl.Trainer, module: Any, optimizer: Any) -> None:
        if self.found["gradient"] is None and not self.scaled_gradients:
            named = module.method.named_parameters()
            bad = [name for name, weight in named if weight.grad is not None and not is_finite(weight.grad)]
            if bad:
                self.found["gradient"] = {"batch": module.batches_done - 1, "weights": bad}


def replay(
    folder: str | Path, *, encoder: nn.Module | None = None, data: ImageData | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Repeat the failed batch of a run on one process, and write replay.json; returns what it wrote.

    Args:
        folder: the run folder, with fault.npz.
        encoder: as given to `train`, where it was.
        data: as given to `train`, where it was.
        quiet: print nothing.
    """
    from kvicreg.training.run import build_trainer, calm_lightning

    calm_lightning()
    folder, console = Path(folder), Console(quiet=quiet, soft_wrap=True, highlight=False)
    fault = read_fault(folder)
    config = replace(
        load_config(folder / "config.yaml"), out=str(folder), devices=1, nodes=1, strategy="auto", compile=False
    )
    data = build_data(config) if data is None else data
    method, views = build_method(config, encoder), build_views(config, data)
    module = SelfSupervised(method, config, data=data, views=views, groups=build_groups(config, data))
    last = folder / "checkpoints" / "last.ckpt"
    start = int(AtomicCheckpointIO().load_checkpoint(last)["batches_done"]) if last.is_file() else 0
    if start > fault["batch"]:
        raise ValueError(f"{last} is from after the fault: the run has been resumed and has passed it")
    console.print(f"From batch {start} to batch {fault['batch']}, where the loss was {fault['loss']} ...")
    magnifier = Magnifier(fault, scaled_gradients=config.precision == "16-mixed")
    with clear_errors(config, console):
        trainer = build_trainer(config, callbacks=[magnifier], logger=False)
        try:
            trainer.fit(module, ckpt_path=last if last.is_file() else None)
        except NotFiniteViews:
            magnifier.found["loss"] = "nan"
        except _Reached:
            pass
        else:
            raise ValueError(f"the run ended before batch {fault['batch']}: its settings or data are not the same")
    found = {key: fault[key] for key in ("batch", "step", "epoch", "seed")} | {"from_batch": start} | magnifier.found
    write_atomically(folder / "replay.json", json.dumps(found, indent=2).encode() + b"\n")
    console.print("\n".join(explain(found)))
    return found


def explain(found: dict[str, Any]) -> list[str]:
    """What a replay has found, in words."""
    said = [f"The loss of batch {found['batch']} is {found['loss']}."]
    if not found["batch_is_the_same"]:
        said.append("Its images are not those that were saved: the data have changed since.")
    if found["gradient"] is not None:
        where, names = found["gradient"]["batch"], found["gradient"]["weights"]
        said.append(f"It begins in the gradient of batch {where}, in {_some(names)}.")
    elif found["weights"]:
        said.append(f"The weights were not finite before it: {_some(found['weights'])}.")
    elif found["module"] is not None:
        said.append(f"It begins in the output of {found['module']}; all weights and gradients before it are finite.")
    elif found["after"]:
        said.append(f"Loss and gradients are finite, the weights after the step are not: {_some(found['after'])}.")
    elif isinstance(found["loss"], float):
        said.append("It did not happen again: the cause is not in the data or the weights.")
    else:
        said.append("Encoder and projector give finite embeddings: it begins in the loss.")
    return said


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
