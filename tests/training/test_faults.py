"""What goes wrong during a training is told in a sentence, loses nothing, and can be replayed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

import pytest
import torch
from poisoned import Poisoned
from safetensors.torch import load_file

from kvicreg.cli import main
from kvicreg.operators import eigenvalues as solver
from kvicreg.storage import working_on
from kvicreg.training import train
from kvicreg.training.alarm import NotFinite
from kvicreg.training.faults import is_out_of_memory
from kvicreg.training.replay import explain, replay


def weights(folder):
    return load_file(folder / "encoder.safetensors")


def same(one, two):
    return one.keys() == two.keys() and all(one[key].equal(two[key]) for key in one)


def test_a_loss_that_is_not_finite_stops_at_its_step_before_a_weight_changes(tiny_config, tiny_data, tmp_path):
    config = tiny_config.replace(checkpoint_steps=1, log_every=100)
    with pytest.raises(NotFinite, match=r"nan at batch 4 \(step 4, epoch 2\).*kvicreg replay"):
        # two views a batch: the ninth call is the first view of batch 4
        train(config, encoder=Poisoned(9, lambda x: x * torch.nan), data=tiny_data, quiet=True)
    run = tmp_path / "run"
    kept = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert kept["batches_done"] == 4
    assert all(value.isfinite().all() for value in kept["state_dict"].values() if value.is_floating_point())


def test_replay_repeats_the_batch_and_tells_where_it_begins(tiny_config, tiny_data, tmp_path):
    config = tiny_config.replace(epochs=3, learning_rate=1e25, log_every=100)
    with pytest.raises(NotFinite):
        train(config, data=tiny_data, quiet=True)
    found = replay(tmp_path / "run", data=tiny_data, quiet=True)
    assert found["batch_is_the_same"]
    assert found["loss"] in ("nan", "inf")
    assert found["module"] is not None or found["gradient"] is not None
    assert json.loads((tmp_path / "run" / "replay.json").read_text()) == found
    changed = type(tiny_data)(255 - tiny_data.images, tiny_data.labels, name="squares")
    assert not replay(tmp_path / "run", data=changed, quiet=True)["batch_is_the_same"]


@pytest.mark.parametrize("when", [2, 4])  # in batch 1, and in the last of the epoch, after which a checkpoint is due
def test_replay_finds_the_gradient_that_spoilt_the_weights(tiny_config, tiny_data, tmp_path, when):
    class BadGradient(Poisoned):
        def forward(self, x):
            x = super().forward(x)
            # the square root of zero: 0, with an infinite slope that meets a zero
            return x + (x * 0).abs().sqrt() if self.training and self.calls == -when else x

    def encoder():
        return BadGradient(2, lambda x: x)

    with pytest.raises(NotFinite):
        train(tiny_config, encoder=encoder(), data=tiny_data, quiet=True)
    found = replay(tmp_path / "run", encoder=encoder(), data=tiny_data, quiet=True)
    assert found["gradient"]["batch"] == (1 if when == 2 else 2)
    assert not list((tmp_path / "run" / "checkpoints").iterdir()), "broken weights are not kept"
    assert any("second" in name for name in found["gradient"]["weights"])
    assert any("second" in name for name in found["after"]) == (when == 4)


def test_replay_shows_the_network_the_views_of_the_run(tiny_config, tiny_data, tmp_path):
    class Watched(Poisoned):
        def forward(self, x):
            if self.training:
                self.last = x.detach().clone()
            return super().forward(x)

    config = tiny_config.replace(rotation=0.0, zoom=0.0)
    encoders = [Watched(3, lambda x: x * torch.nan) for _ in range(2)]
    with pytest.raises(NotFinite):
        train(config, encoder=encoders[0], data=tiny_data, quiet=True)
    replay(tmp_path / "run", encoder=encoders[1], data=tiny_data, quiet=True)
    assert encoders[0].last.equal(encoders[1].last)


OUTCOME = {"batch": 4, "loss": "nan", "batch_is_the_same": True, "gradient": None, "weights": [], "module": None}


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        ({"gradient": {"batch": 3, "weights": ["a"]}}, "It begins in the gradient of batch 3, in a."),
        ({"weights": ["a", "b", "c", "d"]}, "The weights were not finite before it: a, b, c and 1 more."),
        ({"module": "encoder.stem"}, "It begins in the output of encoder.stem; all weights"),
        ({"after": ["a", "b"], "loss": 1.5}, "the weights after the step are not: a, b."),
        ({"loss": 1.5}, "It did not happen again"),
        ({}, "it begins in the loss"),
    ],
)
def test_every_outcome_of_a_replay_has_a_sentence(outcome, sentence):
    first, *rest = explain({**OUTCOME, "after": [], **outcome})
    assert first == f"The loss of batch 4 is {outcome.get('loss', 'nan')}."
    assert len(rest) == 1
    assert sentence in rest[0]
    changed = explain({**OUTCOME, "after": [], **outcome, "batch_is_the_same": False})
    assert "the data have changed" in changed[1]


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("the memory of an elephant"), False),
    ],
)
def test_what_allocators_say_is_known(error, is_it):
    assert is_out_of_memory(error) == is_it


def test_replay_without_a_fault_says_so(make_run, tmp_path, capsys):
    make_run(tmp_path / "run")
    assert main(["replay", str(tmp_path / "run")]) == 1
    assert "no step of its training has failed" in capsys.readouterr().err


def test_out_of_memory_is_told_and_the_run_resumes(tiny_config, tiny_data, tmp_path):
    config = tiny_config.replace(checkpoint_steps=1)
    with pytest.raises(MemoryError, match="smaller batch_size"):
        train(
            config, encoder=Poisoned(9, lambda x: x + torch.empty(1 << 55).sum()), data=tiny_data, quiet=True
        )  # what no machine has
    healthy = [Poisoned(0, None), Poisoned(0, None)]
    train(config, encoder=healthy[0], data=tiny_data, quiet=True, resume=True)
    train(config.replace(out=str(tmp_path / "whole")), encoder=healthy[1], data=tiny_data, quiet=True)
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))


def test_a_clock_that_jumps_changes_nothing(tiny_config, tiny_data, tmp_path, monkeypatch):
    train(tiny_config.replace(out=str(tmp_path / "whole")), data=tiny_data, quiet=True)
    now, chance = time.time, random.Random(0)
    monkeypatch.setattr(time, "time", lambda: now() + chance.uniform(-1e8, 1e8))
    train(tiny_config, data=tiny_data, quiet=True)
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))


def test_a_second_process_on_the_run_folder_is_told(tiny_config, tiny_data, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    code = (
        "import sys, time; from pathlib import Path; from kvicreg.storage import working_on\n"
        "with working_on(Path(sys.argv[1]), 'kvicreg train'): print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    for overwrite in (False, True):
        with pytest.raises(BlockingIOError, match=f"in use by kvicreg train, process {other.pid}"):
            train(tiny_config, data=tiny_data, quiet=True, overwrite=overwrite)
    other.kill()
    other.wait()
    assert (run / ".lock").exists(), "what the dead process left does not hold anybody up"
    train(tiny_config.replace(epochs=1), data=tiny_data, quiet=True)
    assert not (run / ".lock").exists()


def test_evaluation_waits_for_nobody_and_tells_who_works_there(make_run, tmp_path, capsys):
    run = make_run(tmp_path / "run")
    with working_on(run, "kvicreg evaluate"):
        code = f"import sys; from kvicreg.cli import main; sys.exit(main(['evaluate', {str(run)!r}]))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"is in use by kvicreg evaluate, process {os.getpid()}" in done.stderr


@pytest.mark.parametrize("damage", ["cut", "zeros", "other", "list", "type", "shape", "version"])
def test_a_damaged_checkpoint_is_named(tiny_config, tiny_data, tmp_path, damage):
    train(tiny_config.replace(epochs=1), data=tiny_data, quiet=True)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    content = last.read_bytes()
    if damage == "cut":
        last.write_bytes(content[: len(content) // 2])
    elif damage == "zeros":
        last.write_bytes(bytes(len(content)))
    elif damage in ("type", "shape", "version"):
        whole = torch.load(last, weights_only=True)
        wrong = {"type": -1, "shape": dict.fromkeys(whole["state_dict"], torch.ones(7)), "version": "-1"}
        whole["pytorch-lightning_version" if damage == "version" else "state_dict"] = wrong[damage]
        torch.save(whole, last)
    else:
        torch.save({"weights": torch.ones(2)} if damage == "other" else [1, 2], last)
    with pytest.raises(ValueError, match=r"last\.ckpt.*(damaged|not written by|does not fit).*best\.ckpt"):
        train(tiny_config, data=tiny_data, quiet=True, resume=True)


def test_an_eigensolver_that_gives_up_is_replaced_counted_and_reported(tiny_config, tiny_data, tmp_path, monkeypatch):
    real, chance = solver._solve, random.Random(1)

    def moody(matrix, *, vectors):
        if matrix.dtype == torch.float32 and chance.random() < 0.3:
            raise torch.linalg.LinAlgError("did not converge")
        return real(matrix, vectors=vectors)

    monkeypatch.setattr(solver, "_solve", moody)
    train(tiny_config, data=tiny_data, quiet=True)
    assert "did not converge and were repeated" in (tmp_path / "run" / "metrics.csv").read_text()


def test_eigenvalues_are_right_by_whichever_way_and_nan_for_what_is_not_finite(monkeypatch):
    x = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(0))
    matrix = x + x.mT
    expected = torch.linalg.eigvalsh(matrix)

    def never(*_, **__):
        raise torch.linalg.LinAlgError("did not converge")

    monkeypatch.setattr(solver, "_solve", never)
    torch.testing.assert_close(solver.eigenvalues(matrix), expected, atol=1e-5, rtol=1e-5)
    values, vectors = solver.eigenvectors(matrix)
    torch.testing.assert_close(vectors @ values.diag_embed() @ vectors.mT, matrix, atol=1e-5, rtol=1e-5)
    matrix[1, 0, 0] = torch.inf
    values = solver.eigenvalues(matrix)
    assert values[1].isnan().all()
    torch.testing.assert_close(values[::2], expected[::2], atol=1e-5, rtol=1e-5)
