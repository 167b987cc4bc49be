"""The guard of every step: a loss that is not finite stops the training there, and its batch is kept for `replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor

from kvicreg.losses.terms import NotFiniteViews
from kvicreg.runs import RunFolder
from kvicreg.storage import read_arrays
from kvicreg.training.alarm import NotFinite


class _Seen(NamedTuple):
    """A step whose loss is on its way to the host."""

    finite: Tensor
    arrived: Any  # a CUDA event, or None where the loss is on the host already
    fault: dict[str, Any]


class StepGuard(pl.Callback):
    """Looks at every loss before it can change a weight.

    On a GPU the host must not wait for the device: the answer is fetched while the device goes on, and read a step
    later, before any checkpoint. `kvicreg replay` starts from the last checkpoint, so nothing is lost by that.

    Args:
        run: where a fault is kept.
    """

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.batch: Any = None
        self.waiting: _Seen | None = None
        self.sentence: str | None = None
        self.started = False  # before that, a checkpoint is being read

    def on_train_start(self, *_: Any) -> None:
        self.started = True

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        self.batch = batch

    def on_before_backward(self, trainer: pl.Trainer, module: Any, loss: Tensor) -> None:
        self._look()
        finite, arrived = torch.isfinite(loss.detach()), None
        if loss.is_cuda:
            finite, arrived = finite.to("cpu", non_blocking=True), torch.cuda.Event()
            arrived.record()
        fault = self._fault(trainer, module, module.batches_done - 1, loss.detach())
        self.waiting = _Seen(finite, arrived, fault)
        if arrived is None:
            self._look()

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        self.check_weights(trainer, module)

    def on_train_end(self, *_: Any) -> None:
        self.batch = self.waiting = None  # a batch of a worker holds a file open

    def on_exception(self, trainer: pl.Trainer, module: Any, exception: BaseException) -> None:
        """A loss refuses embeddings that are not finite: the same fault, a little earlier."""
        if isinstance(exception, NotFiniteViews) and self.batch is not None:
            fault = self._fault(trainer, module, module.batches_done, torch.tensor(torch.nan))
            self.sentence = self._keep(fault)

    def check_weights(self, trainer: pl.Trainer, module: Any) -> None:
        """Raise when a finite loss has left weights that are not: its gradient, or the step along it."""
        self._look()
        if not all(is_finite(value) for value in module.method.state_dict().values()):
            fault = self._fault(trainer, module, module.batches_done - 1, torch.tensor(torch.nan))
            raise NotFinite(self._keep(fault).replace("the loss is nan at", "the weights are not finite after"))

    def _fault(self, trainer: pl.Trainer, module: Any, batch: int, loss: Tensor) -> dict[str, Any]:
        address = {"batch": batch, "epoch": batch // module.batches_per_epoch, "seed": module.settings.engine.seed}
        where = {"step": trainer.global_step, "rank": trainer.global_rank}
        return address | where | {"loss": loss, "content": self.batch}

    def _look(self) -> None:
        seen, self.waiting = self.waiting, None
        if seen is None:
            return
        if seen.arrived is not None:
            seen.arrived.synchronize()
        if not bool(seen.finite):
            raise NotFinite(self._keep(seen.fault))

    def _keep(self, fault: dict[str, Any]) -> str:
        """Save the fault; a sentence about it."""
        path = save_fault(self.run, fault)
        return (
            f"the loss is {float(fault['loss'])} at batch {fault['batch']} (step {fault['step']}, epoch "
            f"{fault['epoch'] + 1}). Its images are in {path}, and the last checkpoint is from before: 'kvicreg replay "
            f"{self.run.path}' repeats it and tells where it begins. Try a lower learning_rate, clip 1, a longer "
            "warm-up (warmup_epochs), or precision 32-true."
        )


def save_fault(run: RunFolder, fault: dict[str, Any]) -> Path:
    """Keep the address of a batch (seed, epoch, batch), its images, samples and labels, and the loss."""
    images, samples, labels = fault["content"]
    arrays: dict[str, Any] = {key: np.array(value) for key, value in fault.items() if isinstance(value, int)}
    arrays |= {"loss": np.array(float(fault["loss"])), "images": images.cpu().numpy(), "samples": samples.cpu().numpy()}
    if labels is not None:
        arrays["labels"] = labels.cpu().numpy()
    return run.write_fault(**arrays)


def read_fault(run: RunFolder) -> dict[str, Any]:
    """What `save_fault` wrote: whole numbers, the loss, and tensors."""
    faults = run.faults()
    if not faults:
        raise FileNotFoundError(f"{run.path} has no batch to repeat: no step of its training has failed")
    fault = read_arrays(faults[0])
    try:
        whole = {key: int(fault[key]) for key in ("batch", "step", "epoch", "seed", "rank")}
        tensors = {key: torch.from_numpy(fault[key]) for key in ("images", "samples")}
        return whole | tensors | {"loss": float(fault["loss"])}
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{faults[0]} is damaged ({error})") from error


def is_finite(values: Tensor) -> bool:
    """Whether every value is; the host waits for the answer."""
    return not values.is_floating_point() or bool(values.detach().isfinite().all())
