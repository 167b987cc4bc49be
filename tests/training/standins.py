"""Stand-ins for Lightning's trainer and for the module that it trains."""

from __future__ import annotations

from types import SimpleNamespace

from torch import nn

from kvicreg.runs import Settings


def training(done=4, step=3, **given):
    """A trainer and a module of 3 batches an epoch."""
    settings = Settings.of(**({"epochs": 2, "seed": 8} | given))
    module = SimpleNamespace(batches_done=done, batches_per_epoch=3, settings=settings, method=nn.Linear(2, 1))
    trainer = SimpleNamespace(
        global_step=step, global_rank=0, num_training_batches=3, is_global_zero=True, should_stop=False,
        strategy=None, received_sigterm=False,
    )  # fmt: skip
    return trainer, module
