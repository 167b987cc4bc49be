"""What Lightning and the callbacks are given, and what is made of its errors."""

from __future__ import annotations

import logging
import warnings
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.strategies import DDPStrategy
from packaging.version import InvalidVersion
from rich.console import Console

from kvicreg.losses.terms import NotFiniteViews
from kvicreg.runs import RunFolder, Settings
from kvicreg.training import run
from kvicreg.training.alarm import NotFinite
from kvicreg.training.checkpoint import AtomicCheckpointIO, Checkpoints
from kvicreg.training.faults import ProcessWatch, strategy_of
from kvicreg.training.guard import StepGuard
from kvicreg.training.progress import ProgressLines
from kvicreg.training.record import Record
from kvicreg.training.stopping import Stopping


def test_lightning_is_given_the_settings_and_writes_nothing_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(run.pl, "Trainer", lambda **given: given)
    settings = Settings.of(
        epochs=7, accelerator="cpu", devices=1, nodes=1, strategy="mine", precision="bf16-mixed", accumulate=3,
        clip=0.5, deterministic=True, out=str(tmp_path),
    )  # fmt: skip
    given = run.build_trainer(settings, callbacks=("a", "b"), logger="log")
    (plugin,) = given.pop("plugins")
    assert isinstance(plugin, AtomicCheckpointIO)
    assert given == {
        "max_epochs": 7, "accelerator": "cpu", "devices": 1, "num_nodes": 1, "strategy": "mine",
        "precision": "bf16-mixed", "accumulate_grad_batches": 3, "gradient_clip_val": 0.5, "deterministic": True,
        "sync_batchnorm": False, "use_distributed_sampler": False, "callbacks": ["a", "b"], "logger": "log",
        "default_root_dir": tmp_path, "enable_checkpointing": False, "enable_progress_bar": False,
        "enable_model_summary": False,
    }  # fmt: skip


@pytest.mark.parametrize(("gpu", "devices", "nodes", "sync"), [(True, 2, 1, True), (True, 1, 2, True),
                                                               (True, 1, 1, False), (False, 2, 1, False)])  # fmt: skip
def test_batch_statistics_are_shared_by_several_gpus(monkeypatch, gpu, devices, nodes, sync):
    monkeypatch.setattr(run.pl, "Trainer", lambda **given: given)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    given = run.build_trainer(Settings.of(devices=devices, nodes=nodes), callbacks=(), logger=None)
    assert (given["devices"], given["num_nodes"], given["sync_batchnorm"]) == (devices, nodes, sync)


def test_what_lightning_refuses_is_one_line(monkeypatch):
    def refuse(**given):
        raise ValueError("no such\n   accelerator")

    monkeypatch.setattr(run.pl, "Trainer", refuse)
    with pytest.raises(ValueError, match="^no such accelerator$"):
        run.build_trainer(Settings(), callbacks=(), logger=None)


@pytest.mark.parametrize(
    ("given", "is_ddp"),
    [
        ({"devices": 2}, True),
        ({"nodes": 2}, True),
        ({"devices": 2, "strategy": "ddp"}, True),
        ({"devices": 2, "strategy": "ddp_spawn"}, False),
        ({"strategy": "ddp"}, False),
        ({}, False),
    ],
)
def test_processes_wait_for_each_other_as_long_as_asked_for(given, is_ddp):
    strategy = strategy_of(Settings.of(timeout_minutes=3.0, **given))
    if is_ddp:
        assert isinstance(strategy, DDPStrategy)
        assert strategy._timeout == timedelta(minutes=3)
    else:
        assert strategy == given.get("strategy", "auto")


def test_callbacks_come_in_their_order_with_the_settings(tiny_data, tmp_path):
    settings = Settings.of(
        spectrum_images=9, probe_images=12, seed=4, log_every=3, probe_every=2, checkpoint_steps=6,
        checkpoint_minutes=2.5, time_limit="2m",
    )  # fmt: skip
    views = SimpleNamespace()
    folder, console = RunFolder(tmp_path), Console(quiet=True)
    guard, other = StepGuard(folder), ProcessWatch()
    made = run._callbacks(settings, folder, tiny_data, views, guard, [other], console)
    kinds = [StepGuard, ProcessWatch, Record, ProgressLines, Checkpoints, ProcessWatch, Stopping]
    assert [type(callback) for callback in made] == kinds
    _, _, record, lines, checkpoints, last_but_one, stopping = made
    assert made[0] is guard
    assert last_but_one is other
    assert (record.run, record.log_every, record.probe_every) == (folder, 3, 2)
    fixed = record.fixed
    assert (len(fixed.samples), len(fixed.probe), fixed.seed, fixed.views) == (9, 12, 4, views)
    assert (lines.record, lines.console) == (record, console)
    assert (checkpoints.run, checkpoints.record, checkpoints.guard) == (folder, record, guard)
    assert (checkpoints.steps, checkpoints.minutes) == (6, 2.5)
    assert (stopping.checkpoints, stopping.seconds, stopping.quiet) == (checkpoints, 120, True)
    unlimited = run._callbacks(settings.replace(time_limit=None), folder, tiny_data, views, guard, [], Console())
    assert unlimited[-1].seconds is None
    assert not unlimited[-1].quiet


def fitting(error, checkpoint=None, **given):
    def fit(module, *, ckpt_path):
        assert (module, ckpt_path) == ("module", checkpoint)
        raise error

    guard = SimpleNamespace(**({"sentence": None, "started": False} | given))
    run._fit(SimpleNamespace(fit=fit), "module", guard, checkpoint)


def test_embeddings_that_are_not_finite_are_told_in_the_guards_words():
    with pytest.raises(NotFinite, match="^the guard's$"):
        fitting(NotFiniteViews("plain"), sentence="the guard's")
    with pytest.raises(NotFinite, match="^plain$"):
        fitting(NotFiniteViews("plain"))


@pytest.mark.parametrize(
    "error", [KeyError("x"), AttributeError("x"), TypeError("x"), RuntimeError("x"), InvalidVersion("x")]
)
def test_a_checkpoint_that_does_not_fit_is_blamed_only_before_the_start(tmp_path, error):
    checkpoint = tmp_path / "checkpoints" / "last.ckpt"
    blamed = rf"^{checkpoint} does not fit this run \({type(error).__name__}: .*; copy best"
    with pytest.raises(ValueError, match=blamed):
        fitting(error, checkpoint)
    for more in ({"checkpoint": None}, {"started": True}):
        with pytest.raises(type(error)):
            fitting(error, **({"checkpoint": checkpoint} | more))
    for words in ("out of memory", "NCCL error"):
        with pytest.raises(RuntimeError, match=words):
            fitting(RuntimeError(words), checkpoint)


def test_a_long_reason_is_cut_and_on_one_line(tmp_path):
    with pytest.raises(ValueError, match="does not fit") as error:
        fitting(RuntimeError("a\n  b" + "c" * 300), tmp_path / "checkpoints" / "last.ckpt")
    assert f"(RuntimeError: a b{'c' * 197})" in str(error.value)


def test_lightnings_warnings_are_not_shown():
    with warnings.catch_warnings(record=True) as shown:
        warnings.resetwarnings()
        run.calm_lightning()
        warnings.warn_explicit("a hint", UserWarning, "x.py", 1, module="lightning.pytorch")
        warnings.warn("use isinstance(treespec, LeafSpec) instead", stacklevel=1)
        warnings.warn("mine", stacklevel=1)
    assert [str(warning.message) for warning in shown] == ["mine"]
    assert logging.getLogger("lightning").level == logging.ERROR
