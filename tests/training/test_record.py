"""The record of a run: every number comes from where its column says, and goes to the loggers."""

from __future__ import annotations

import csv
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pictures import CPU
from torch import nn

from kvicreg import kernels
from kvicreg.runs import RunFolder, Settings
from kvicreg.training import record as module
from kvicreg.training.alarm import NotFinite
from kvicreg.training.guard import StepGuard, _Seen, read_fault
from kvicreg.training.monitor import Spectrum, spectrum
from kvicreg.training.record import COLUMNS, Record

SPECTRUM = Spectrum(torch.tensor([0.5, 0.25]), 20.0, 31.0, 0.5, 1.0, 0.125, 0.5)
MEASURED = {
    "effective_rank": 20.0, "effective_rank_bound": 31.0, "top_eigenvalue": 0.5, "embedding_scale": 1.0,
    "bandwidth": 0.125,
}  # fmt: skip


class Logger(list):
    def log_metrics(self, numbers, step):
        self.append((numbers, step))


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


class Fixed:
    """Stands for `FixedImages`: what it answers, for which method and device."""

    samples, probe, now, error = torch.arange(6), "some", SPECTRUM, {}

    def __init__(self, method):
        self.method = method

    def spectrum(self, method, device):
        assert (method, device) == (self.method, CPU)
        return self.now

    def agreement(self, method, device):
        assert (method, device) == (self.method, CPU)
        return 0.75

    def approximation_error(self, method, device):
        assert (method, device) == (self.method, CPU)
        return self.error

    def accuracies(self, method):
        assert method is self.method
        return 0.5, 0.25


def training(kernel=None, **given):
    """A method, its module of 3 batches an epoch, a trainer that logs, and what is measured."""
    method = nn.Module()
    method.loss = SimpleNamespace(kernel=kernel)
    about = SimpleNamespace(
        method=method, device=CPU, batches_done=0, batches_per_epoch=3, batch_size=32,
        settings=Settings.of(**({"epochs": 4} | given)), current_learning_rate=lambda: 0.01, repeated_decompositions=0,
    )  # fmt: skip
    return SimpleNamespace(global_step=0, is_global_zero=True, loggers=[Logger(), Logger()]), about, Fixed(method)


def outputs(loss, **terms):
    z = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    values = {"loss": torch.tensor(loss), **{name: torch.tensor(value) for name, value in terms.items()}}
    return {"terms": values, "embeddings": z}


def test_a_point_of_the_log_has_terms_rank_rate_and_speed(tmp_path, clock):
    kernel = kernels.RBF(gamma=0.3)
    trainer, about, fixed = training(kernel)
    record = Record(RunFolder(tmp_path), fixed, log_every=5, probe_every=1)
    clock.now = 150.0
    record.on_train_start(trainer, about)
    clock.now, about.batches_done, trainer.global_step = 154.0, 1, 7
    record.on_train_batch_end(trainer, about, outputs(1.5, variance=0.5), None, 0)
    rank = spectrum(outputs(0.0)["embeddings"][:6], kernel).effective_rank
    expected = {
        "loss": 1.5, "variance": 0.5, "effective_rank": rank, "learning_rate": 0.01, "images_per_second": 8.0,
    }  # fmt: skip
    assert record.live == expected
    point = ({f"step/{name}": value for name, value in expected.items()}, 7)
    assert [list(logger) for logger in trainer.loggers] == [[point], [point]]


def test_points_come_with_the_first_batch_every_so_many_and_after_a_while(tmp_path, clock):
    trainer, about, fixed = training()
    record = Record(RunFolder(tmp_path), fixed, log_every=4, probe_every=1)
    for seconds in (1, 1, 1, 1, 15, 1, 1):
        clock.now += seconds
        about.batches_done = trainer.global_step = about.batches_done + 1
        record.on_train_batch_end(trainer, about, outputs(1.0), None, 0)
    assert [step for _, step in trainer.loggers[0]] == [1, 4, 6]
    assert (record.batches, record.clock_images) == (7, 7 * 32)


def test_a_logged_step_leaves_a_loss_that_is_not_finite_to_the_guard_which_keeps_its_batch(tmp_path, clock):
    """On a GPU the guard looks a step later, after the log; at the end of an epoch it is called before the record."""
    trainer, about, fixed = training()
    trainer.global_rank = 0
    guard, record = StepGuard(RunFolder(tmp_path)), Record(RunFolder(tmp_path), fixed, log_every=1, probe_every=1)
    guard.on_train_batch_start(trainer, about, (torch.zeros(2, 1, 4, 4), torch.arange(2), None), 0)
    clock.now, about.batches_done = 101.0, 3
    fault = guard._fault(trainer, about, 2, torch.tensor(math.inf))
    guard.waiting = _Seen(torch.tensor(False), SimpleNamespace(synchronize=lambda: None), fault)
    record.on_train_batch_end(trainer, about, outputs(math.inf), None, 0)
    with pytest.raises(NotFinite, match="the loss is inf at batch 2 "):
        guard.on_train_epoch_end(trainer, about)
    assert read_fault(RunFolder(tmp_path))["batch"] == 2


def epochs(record, trainer, about, clock, count=1, **terms):
    for _ in range(3 * count):
        about.batches_done += 1
        trainer.global_step += 1
        clock.now += 2
        loss = float(about.batches_done)
        record.on_train_batch_end(trainer, about, outputs(loss, **terms), None, 0)
        if about.batches_done % 3 == 0:
            record.on_train_epoch_end(trainer, about)


def test_a_row_has_means_over_the_epoch_and_what_was_measured_at_its_end(tmp_path, clock):
    trainer, about, fixed = training()
    fixed.error = {"approximation_error": 0.125}
    record = Record(RunFolder(tmp_path), fixed, log_every=100, probe_every=1)
    record.on_train_start(trainer, about)
    epochs(record, trainer, about, clock, 2, variance=0.5, purity=3.0)
    assert tuple(record.rows[0])[: len(COLUMNS)] == COLUMNS
    for row, epoch, loss in zip(record.rows, (1, 2), (2.0, 5.0), strict=True):
        nothing = [row.pop(name) for name in ("invariance", "covariance")]
        assert all(math.isnan(value) for value in nothing)
        assert row == MEASURED | {
            "epoch": epoch, "step": 3 * epoch, "loss": loss, "variance": 0.5, "learning_rate": 0.01,
            "images_per_second": 16.0, "probe_accuracy": 0.5, "knn_accuracy": 0.25, "cka": 0.75, "warning": "",
            "approximation_error": 0.125, "purity": 3.0,
        }  # fmt: skip
    numbers, step = trainer.loggers[1][-1]
    assert step == 6
    assert numbers == {f"epoch/{name}": value for name, value in record.rows[1].items() if isinstance(value, float)}
    with np.load(tmp_path / "spectrum.npz") as kept:
        assert kept["epochs"].tolist() == [1, 2]
        assert kept["eigenvalues"].tolist() == [[0.5, 0.25]] * 2
    with (tmp_path / "metrics.csv").open() as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == [2.0, 5.0]


def test_probes_are_due_every_so_many_epochs_and_at_the_end(tmp_path, clock):
    trainer, about, fixed = training(epochs=5)
    record = Record(RunFolder(tmp_path), fixed, log_every=100, probe_every=2)
    epochs(record, trainer, about, clock, 5)
    for name, value in (("probe_accuracy", 0.5), ("knn_accuracy", 0.25)):
        assert [row[name] == value for row in record.rows] == [False, True, False, True, True]
        assert math.isnan(record.rows[0][name])
    assert "epoch/probe_accuracy" not in trainer.loggers[0][1][0]


def test_other_processes_measure_and_write_nothing(tmp_path, clock):
    trainer, about, fixed = training()
    trainer.is_global_zero = False
    record = Record(RunFolder(tmp_path / "run"), fixed, log_every=100, probe_every=1)
    epochs(record, trainer, about, clock)
    assert len(record.rows) == 1
    assert not (tmp_path / "run").exists()
    assert len(trainer.loggers[0]) == 1, "the first step"


@pytest.mark.parametrize(
    ("kernel", "warns"), [(kernels.RBF(gamma=0.3), True), (kernels.Linear(), False), (None, False)]
)
def test_a_bandwidth_can_only_saturate_where_the_kernel_is_bounded(tmp_path, clock, kernel, warns):
    trainer, about, fixed = training(kernel)
    fixed.now = SPECTRUM._replace(similarity=0.001)
    record = Record(RunFolder(tmp_path), fixed, log_every=100, probe_every=1)
    epochs(record, trainer, about, clock)
    assert record.rows[0]["warning"].startswith("the bandwidth saturates") == warns


def test_the_alarm_compares_with_the_first_epoch_and_counts_new_repetitions(tmp_path, clock):
    trainer, about, fixed = training()
    record = Record(RunFolder(tmp_path), fixed, log_every=100, probe_every=1)
    for repeated, scale in ((2, 1.0), (2, 0.02), (5, 0.0099)):
        about.repeated_decompositions, fixed.now = repeated, SPECTRUM._replace(embedding_scale=scale)
        epochs(record, trainer, about, clock)
    first, second, third = (row["warning"] for row in record.rows)
    assert first == "2 eigendecompositions did not converge and were repeated in float64."
    assert second == ""
    assert third.startswith("the embeddings shrink: their scale is 0.0099")
    assert third.endswith(" 3 eigendecompositions did not converge and were repeated in float64.")


def test_shares_of_a_mixture_are_columns(tmp_path, clock):
    trainer, about, fixed = training(kernels.Mixture([kernels.Linear(), kernels.RBF(gamma=1.0)], weights=[0.25, 0.75]))
    record = Record(RunFolder(tmp_path), fixed, log_every=100, probe_every=1)
    epochs(record, trainer, about, clock)
    shares = {name: value for name, value in record.rows[0].items() if name.startswith("share")}
    assert shares == {"share_1_Linear": 0.25, "share_2_RBF": 0.75}


def test_an_epoch_is_as_good_as_its_probe_or_as_its_views_agree(tmp_path):
    fixed = training()[2]
    record = Record(RunFolder(tmp_path), fixed, log_every=1, probe_every=1)
    record.rows = [{"cka": 0.1, "probe_accuracy": 0.2}, {"cka": 0.75, "probe_accuracy": 0.5}]
    assert record.score() == 0.5
    record.rows[-1]["probe_accuracy"] = math.nan
    assert record.score() is None
    fixed.probe = None
    assert record.score() == 0.75


def test_a_record_goes_on_from_its_state(tmp_path, clock):
    trainer, about, fixed = training()
    record = Record(RunFolder(tmp_path), fixed, log_every=100, probe_every=1)
    fresh = record.state_dict()
    assert fresh == {"rows": [], "spectra": [], "first": None, "sums": {}, "batches": 0}
    epochs(record, trainer, about, clock)
    record.on_train_batch_end(trainer, about, outputs(4.0), None, 0)
    other = Record(RunFolder(tmp_path), fixed, log_every=100, probe_every=1)
    other.load_state_dict(record.state_dict())
    other.on_train_start(trainer, about)
    assert (other.rows, other.spectra, other.batches) == (record.rows, record.spectra, 1)
    assert other.sums == {"loss": torch.tensor(4.0)}
    assert isinstance(other.first, Spectrum)
    assert other.first.effective_rank == 20
    other.load_state_dict(fresh)
    assert other.first is None
