"""The numbers that training goes by: the learning rate of a step, the limits of the alarm, costs and memory."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from kvicreg.runs import RunFolder, Settings
from kvicreg.training import memory
from kvicreg.training.alarm import warnings
from kvicreg.training.cost import Cost, device_of, fewest_seconds, unknown_cost
from kvicreg.training.guard import is_finite, read_fault, save_fault
from kvicreg.training.loggers import build_logger
from kvicreg.training.monitor import Spectrum
from kvicreg.training.schedule import learning_rate

CPU = torch.device("cpu")


def test_the_learning_rate_warms_up_and_then_falls_along_half_a_cosine():
    rates = [learning_rate(step, total=14, warmup=4, peak=1.0, final=0.2) for step in range(16)]
    assert rates[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert rates[4] == 1
    assert rates[9] == pytest.approx(0.6)
    assert rates[14] == rates[15] == pytest.approx(0.2)
    assert rates[6] == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 5)) / 2)
    assert learning_rate(10, total=10, warmup=0, peak=3.0) == 0
    assert learning_rate(5, total=5, warmup=5, peak=3.0) == 3


def spectrum(rank=20.0, bound=100.0, scale=1.0, similarity=0.5):
    return Spectrum(torch.ones(1), rank, bound, 1.0, scale, 0.125, similarity)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (spectrum(rank=1.99), "collapse: effective rank 2.0 of 100"),
        (spectrum(rank=math.nan), "collapse: effective rank nan of 100"),
        (spectrum(rank=1.4, bound=3), "collapse: effective rank 1.4 of 3"),
        (spectrum(rank=1.5, bound=3), None),
        (spectrum(rank=2.0), None),
        (spectrum(rank=3.9, bound=200), "partial collapse: effective rank 3.9 of 200"),
        (spectrum(rank=4.0, bound=200), None),
        (spectrum(scale=0.9e-4), "the embeddings shrink: their scale is 9e-05"),
        (spectrum(scale=1e-4), None),
        (spectrum(scale=1.1e4), "the embeddings blow up: their scale is 1.1e+04"),
        (spectrum(scale=1e4), None),
        (spectrum(similarity=0.009), "gamma 0.125 makes every two images unrelated (mean kernel value 0.009)"),
        (spectrum(similarity=0.01), None),
        (spectrum(similarity=0.991), "gamma 0.125 makes every two images the same (mean kernel value 0.9910)"),
        (spectrum(similarity=0.99), None),
    ],
)
def test_the_alarm_has_these_limits(now, words):
    sentences = warnings(now)
    assert sentences == [] if words is None else (len(sentences) == 1 and words in sentences[0])


def test_the_alarm_compares_the_scale_with_the_first_epochs():
    first = spectrum(scale=10.0)
    for scale, word in ((0.099, "shrink"), (0.1, None), (1e4, None), (1.01e4, "blow up")):
        sentences = warnings(spectrum(scale=scale), first)
        assert sentences == [] if word is None else word in sentences[0]
    assert "blow up" in warnings(spectrum(scale=1e-3), spectrum(scale=0.0))[0]
    assert warnings(spectrum(similarity=0.001), bounded=False) == []
    assert len(warnings(spectrum(rank=1.0, similarity=0.999))) == 1


def test_memory_grows_with_the_square_of_the_batch_and_has_a_margin():
    cost = Cost(CPU, 10_000, 500, 0.01, 0.001, 0.64)
    assert cost.bytes(10) == int(1.2 * (10_000 + 5_000 + 12_800))
    assert cost.seconds(128) == pytest.approx(1.28 + 0.16)
    for batch in (1, 7, 300):
        assert cost.largest_batch(cost.bytes(batch) + 2) == batch
        assert cost.largest_batch(cost.bytes(batch) - 2) == batch - 1
    assert cost.largest_batch(12_000) == 0
    assert cost.largest_batch(100) == 0
    assert cost.is_known
    unknown = unknown_cost(Settings.of(accelerator="cpu"))
    assert (unknown.is_known, unknown.bytes(10), unknown.device) == (False, 0, CPU)
    assert (unknown.read_seconds, unknown.loss_seconds) == (0, 0)
    assert cost._replace(image_bytes=None).bytes(10) == cost._replace(fixed_bytes=None).bytes(10) == 0


@pytest.mark.parametrize(
    ("ticks", "fewest"),
    [
        ([0, 4.5, 5, 7], 2),  # two that take long are enough
        ([0, 0.1, 1, 1.3, 2, 2.05, 3, 3.2, 4, 4.1, 5, 5.3], 0.05),  # of short ones six
    ],
)
def test_work_takes_as_long_as_when_it_was_least_disturbed(ticks, fewest):
    left = iter(ticks)
    assert fewest_seconds(lambda: None, lambda: next(left)) == pytest.approx(fewest)
    assert [*left] == []


@pytest.mark.parametrize(("accelerator", "kind"), [("auto", "cuda"), ("gpu", "cuda"), ("cuda", "cuda"), ("cpu", "cpu")])
def test_a_training_runs_where_its_settings_say(monkeypatch, accelerator, kind):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_of(Settings.of(accelerator=accelerator)).type == kind
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of(Settings.of(accelerator=accelerator)).type == "cpu"


def test_the_tightest_limit_on_memory_counts(monkeypatch):
    monkeypatch.setattr(memory, "_limits", lambda: [(100, 30), (80, 20), (90, 70)])
    assert (memory.total_bytes(CPU), memory.available_bytes(CPU)) == (80, 20)
    monkeypatch.setattr(memory, "_limits", lambda: [(100, 130)])
    assert memory.available_bytes(CPU) == 0
    monkeypatch.setattr(memory, "_limits", list)
    assert memory.total_bytes(CPU) is memory.available_bytes(CPU) is None


def test_a_containers_limit_counts_without_files_that_can_be_forgotten(monkeypatch, tmp_path):
    limit, used = tmp_path / "memory.max", tmp_path / "memory.current"
    limit.write_text("5000\n")
    used.write_text("3000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 1200\n")
    monkeypatch.setattr(memory, "_CGROUPS", ((str(limit), str(used)), (str(tmp_path / "none"), "")))
    assert memory._limits()[-1] == (5000, 1800)
    (tmp_path / "memory.stat").write_text("anon 1\n")
    assert memory._limits()[-1] == (5000, 3000)
    limit.write_text("max\n")
    total, in_use = memory._limits()[0]
    assert (5000, 3000) not in memory._limits()
    assert 0 < in_use < total
    assert memory._status("VmRSS") > 1000
    with pytest.raises(OSError, match="has no VmNothing"):
        memory._status("VmNothing")


def test_a_fault_comes_back_as_it_was_kept(tmp_path):
    run = RunFolder(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no batch to repeat: no step of its training has failed"):
        read_fault(run)
    content = (torch.ones(2, 1, 3, 3), torch.tensor([4, 5]), torch.tensor([0, 1]))
    address = {"batch": 7, "epoch": 1, "seed": 3, "step": 6, "rank": 0}
    path = save_fault(run, address | {"loss": torch.tensor(math.inf), "content": content})
    assert path.name == "fault.npz"
    fault = read_fault(run)
    assert {key: fault[key] for key in address} == address
    assert (fault["loss"], fault["samples"].tolist(), fault["images"].shape) == (math.inf, [4, 5], (2, 1, 3, 3))
    assert np.load(path)["labels"].tolist() == [0, 1]
    save_fault(run, address | {"loss": torch.tensor(0.0), "content": (*content[:2], None)})
    assert "labels" not in np.load(path)
    np.savez(path, batch=np.array(1))
    with pytest.raises(ValueError, match="fault.npz is damaged"):
        read_fault(run)
    assert is_finite(torch.tensor([1, 2]))
    assert is_finite(torch.ones(2))
    assert not is_finite(torch.tensor([1.0, math.inf]))


def test_loggers_write_into_the_run(tmp_path):
    for name in ("tensorboard", "csv"):
        logger = build_logger(name, RunFolder(tmp_path))
        assert Path(logger.log_dir) == tmp_path / name
