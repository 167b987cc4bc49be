"""Replay: repeat the batch that stopped a training, from its last checkpoint, and tell where it began."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from rich.console import Console
from torch import Tensor, nn

from kvicreg.data import ImageData
from kvicreg.losses.terms import NotFiniteViews
from kvicreg.runs import RunFolder
from kvicreg.training.build import build_groups, build_method, build_views
from kvicreg.training.checkpoint import AtomicCheckpointIO
from kvicreg.training.faults import clear_errors
from kvicreg.training.guard import is_finite, read_fault
from kvicreg.training.module import SelfSupervised


class _Reached(Exception):
    """The batch has been repeated."""


class FaultFinder(pl.Callback):
    """Trains up to the failed batch without writing, and notes the first thing that is not finite on the way."""

    def __init__(self, fault: dict[str, Any], *, scaled_gradients: bool) -> None:
        self.fault = fault
        self.scaled_gradients = scaled_gradients  # of float16, where infinite ones are usual and left out
        self.outcome: dict[str, Any] = {"gradient": None, "module": None, "weights": [], "after": []}

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        if module.batches_done != self.fault["batch"]:
            return
        images, samples = batch[0].cpu(), batch[1].cpu()
        place = {int(sample): row for row, sample in enumerate(samples)}
        rows = [place.get(int(sample)) for sample in self.fault["samples"]]
        same = all(row is not None for row in rows) and images[rows].equal(self.fault["images"])
        self.outcome["batch_is_the_same"] = bool(same)
        self.outcome["weights"] = self._broken_weights(module)
        for name, part in module.method.named_modules():
            if not list(part.children()):
                part.register_forward_hook(self._hook(name or "method"))

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(part: nn.Module, inputs: Any, output: Any) -> None:
            if self.outcome["module"] is None and isinstance(output, Tensor) and not is_finite(output):
                self.outcome["module"] = name

        return look

    def on_before_backward(self, trainer: pl.Trainer, module: Any, loss: Tensor) -> None:
        if module.batches_done - 1 == self.fault["batch"]:
            value = float(loss.detach())
            self.outcome["loss"] = value if math.isfinite(value) else str(value)
            if not math.isfinite(value):
                raise _Reached

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        if module.batches_done - 1 == self.fault["batch"]:
            self.outcome["after"] = self._broken_weights(module)
            raise _Reached

    def _broken_weights(self, module: Any) -> list[str]:
        return [name for name, value in module.method.state_dict().items() if not is_finite(value)]

    def on_before_optimizer_step(self, trainer: pl.Trainer, module: Any, optimizer: Any) -> None:
        if self.outcome["gradient"] is None and not self.scaled_gradients:
            named = module.method.named_parameters()
            bad = [name for name, weight in named if weight.grad is not None and not is_finite(weight.grad)]
            if bad:
                self.outcome["gradient"] = {"batch": module.batches_done - 1, "weights": bad}


def replay(
    folder: str | Path, *, encoder: nn.Module | None = None, data: ImageData | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Repeat the failed batch of a run on one process, and write down what came of it; returns that.

    Args:
        folder: the run folder.
        encoder: as given to `train`, where it was.
        data: as given to `train`, where it was.
        quiet: print nothing.
    """
    from kvicreg.training.run import build_trainer, calm_lightning

    calm_lightning()
    run, console = RunFolder.open(folder), Console(quiet=quiet, soft_wrap=True, highlight=False)
    fault = read_fault(run)
    settings = run.settings.replace(out=str(folder), devices=1, nodes=1, strategy="auto", compile=False)
    data = settings.data.load() if data is None else data
    method, views = build_method(settings, encoder), build_views(settings, data)
    module = SelfSupervised(method, settings, data=data, views=views, groups=build_groups(settings, data))
    last = run.checkpoint("last")
    start = int(AtomicCheckpointIO().load_checkpoint(last)["batches_done"]) if last.is_file() else 0
    if start > fault["batch"]:
        raise ValueError(f"{last} is from after the fault: the run has been resumed and has passed it")
    console.print(f"From batch {start} to batch {fault['batch']}, where the loss was {fault['loss']} ...")
    finder = FaultFinder(fault, scaled_gradients=settings.engine.precision == "16-mixed")
    with clear_errors(settings, console):
        trainer = build_trainer(settings, callbacks=[finder], logger=False)
        try:
            trainer.fit(module, ckpt_path=last if last.is_file() else None)
        except NotFiniteViews:
            finder.outcome["loss"] = "nan"
        except _Reached:
            pass
        else:
            raise ValueError(f"the run ended before batch {fault['batch']}: its settings or data are not the same")
    address = {key: fault[key] for key in ("batch", "step", "epoch", "seed")}
    outcome = address | {"from_batch": start} | finder.outcome
    run.write_replay(outcome)
    console.print("\n".join(explain(outcome)))
    return outcome


def explain(outcome: dict[str, Any]) -> list[str]:
    """The outcome of a replay, in words."""
    sentences = [f"The loss of batch {outcome['batch']} is {outcome['loss']}."]
    if not outcome["batch_is_the_same"]:
        sentences.append("Its images are not those that were saved: the data have changed since.")
    if outcome["gradient"] is not None:
        where, names = outcome["gradient"]["batch"], outcome["gradient"]["weights"]
        sentences.append(f"It begins in the gradient of batch {where}, in {_some(names)}.")
    elif outcome["weights"]:
        sentences.append(f"The weights were not finite before it: {_some(outcome['weights'])}.")
    elif outcome["module"] is not None:
        sentences.append(
            f"It begins in the output of {outcome['module']}; all weights and gradients before it are finite."
        )
    elif outcome["after"]:
        sentences.append(
            f"Loss and gradients are finite, the weights after the step are not: {_some(outcome['after'])}."
        )
    elif isinstance(outcome["loss"], float):
        sentences.append("It did not happen again: the cause is not in the data or the weights.")
    else:
        sentences.append("Encoder and projector give finite embeddings: it begins in the loss.")
    return sentences


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
