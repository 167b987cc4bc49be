"""The record of a run: metrics.csv, spectrum.npz, TensorBoard or W&B, and the alarm."""

from __future__ import annotations

import math
import time
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor

from kvicreg.runs import RunFolder
from kvicreg.training import alarm
from kvicreg.training.module import SelfSupervised
from kvicreg.training.monitor import FixedImages, Spectrum, kernel_of, mixture_shares, spectrum

COLUMNS = (
    "epoch", "step", "loss", "invariance", "variance", "covariance", "effective_rank", "effective_rank_bound",
    "top_eigenvalue", "embedding_scale", "bandwidth", "learning_rate", "images_per_second", "probe_accuracy",
    "knn_accuracy", "cka", "warning",
)  # fmt: skip


SECONDS = 15.0


class Record(pl.Callback):
    """Sums the terms of every step on the device, measures at the end of an epoch, writes a row.

    The host waits for the device once in `log_every` steps, and where those take longer than `SECONDS`, as often.

    Args:
        run: where the record is kept.
        fixed: the images the spectrum and the online probe are measured on.
        log_every: steps between points in the loggers.
        probe_every: epochs between online probes.
    """

    def __init__(self, run: RunFolder, fixed: FixedImages, *, log_every: int, probe_every: int) -> None:
        self.run, self.fixed = run, fixed
        self.log_every, self.probe_every = log_every, probe_every
        self.rows: list[dict[str, Any]] = []
        self.spectra: list[Tensor] = []
        self.first: Spectrum | None = None
        self.sums: dict[str, Tensor] = {}
        self.batches = 0
        self.live: dict[str, float] = {}  # what the progress bar shows
        self.clock, self.clock_images = time.perf_counter(), 0
        self.logged_at = self.clock
        self.repeated = 0

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.sums = {
            name: total.to(module.device) for name, total in self.sums.items()
        }  # a checkpoint's are on the host
        self.clock, self.clock_images = time.perf_counter(), 0

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        for name, value in outputs["terms"].items():
            self.sums[name] = self.sums[name].add_(value) if name in self.sums else value.clone()
        self.batches += 1
        self.clock_images += module.batch_size
        is_due = module.batches_done % self.log_every == 0 or module.batches_done == 1
        if is_due or time.perf_counter() - self.logged_at > SECONDS:
            self._log_step(trainer, module, outputs)

    def _log_step(self, trainer: pl.Trainer, module: SelfSupervised, outputs: Any) -> None:
        self.logged_at = time.perf_counter()
        terms = torch.stack(list(outputs["terms"].values())).tolist()
        self.live = dict(zip(outputs["terms"], terms, strict=True))
        embeddings = outputs["embeddings"][: len(self.fixed.samples)]
        self.live["effective_rank"] = spectrum(embeddings, kernel_of(module.method)).effective_rank
        self.live["learning_rate"] = module.current_learning_rate()
        self.live["images_per_second"] = self.clock_images / (time.perf_counter() - self.clock)
        for logger in trainer.loggers:
            logger.log_metrics({f"step/{k}": v for k, v in self.live.items()}, step=trainer.global_step)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        rate = self.clock_images / (time.perf_counter() - self.clock)
        means = {name: float(total) / self.batches for name, total in self.sums.items()}
        epoch = -(-module.batches_done // module.batches_per_epoch)
        now = self.fixed.spectrum(module.method, module.device)
        self.first = self.first or now
        due = epoch % self.probe_every == 0 or epoch == module.settings.schedule.total_epochs
        probe = self.fixed.accuracies(module.method) if due else None
        kernel = kernel_of(module.method)
        bounded = kernel is not None and math.isfinite(kernel.bound)
        row: dict[str, Any] = {name: means.get(name, math.nan) for name in COLUMNS}
        row |= {name: value for name, value in now._asdict().items() if name in COLUMNS}
        row |= {"epoch": epoch, "step": trainer.global_step, "images_per_second": rate}
        row |= {"learning_rate": module.current_learning_rate()}
        row |= {"cka": self.fixed.agreement(module.method, module.device)}
        row |= dict(zip(("probe_accuracy", "knn_accuracy"), probe or (math.nan, math.nan), strict=True))
        warnings = alarm.warnings(now, self.first, bounded=bounded)
        self.repeated, before = module.repeated_decompositions, self.repeated
        if self.repeated > before:
            warnings.append(
                f"{self.repeated - before} eigendecompositions did not converge and were repeated in float64."
            )
        row["warning"] = " ".join(warnings)
        row |= self.fixed.approximation_error(module.method, module.device)
        row |= mixture_shares(module.method) | {name: mean for name, mean in means.items() if name not in row}
        self.rows.append(row)
        self.spectra.append(now.eigenvalues)
        if trainer.is_global_zero:
            self.run.write_metrics(self.rows)
            self.run.write_spectra(np.array([row["epoch"] for row in self.rows]), torch.stack(self.spectra).numpy())
            numbers = {k: v for k, v in row.items() if isinstance(v, float) and math.isfinite(v)}
            for logger in trainer.loggers:
                logger.log_metrics({f"epoch/{k}": v for k, v in numbers.items()}, step=trainer.global_step)
        self.sums, self.batches = {}, 0
        self.clock, self.clock_images = time.perf_counter(), 0

    def score(self) -> float | None:
        """How good the last epoch was: probe accuracy, or without labels how much views agree; None if not measured."""
        if self.fixed.probe is None:
            return float(self.rows[-1]["cka"])
        accuracy = float(self.rows[-1]["probe_accuracy"])
        return None if accuracy != accuracy else accuracy

    def state_dict(self) -> dict[str, Any]:
        first = None if self.first is None else self.first._asdict()
        return {
            "rows": self.rows, "spectra": self.spectra, "first": first, "sums": self.sums, "batches": self.batches
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rows, self.spectra = state_dict["rows"], state_dict["spectra"]
        self.first = None if state_dict["first"] is None else Spectrum(**state_dict["first"])
        self.sums, self.batches = state_dict["sums"], state_dict["batches"]
