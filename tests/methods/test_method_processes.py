"""Two processes that share the batches end in the state of one: weights, targets, queues, prototypes and centres."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_methods import NAMES, STEPS, advance, build, optimizer_of

WORKER = Path(__file__).with_name("method_process_worker.py")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    path = tmp_path_factory.mktemp("two") / "states.pt"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", WORKER, path]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return torch.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_two_processes_end_in_the_state_of_one(outcome, name):
    states = outcome["states"]
    method = build(name)
    start = {key: value.clone() for key, value in method.state_dict().items()}
    advance(method, optimizer_of(method), range(STEPS))
    alone = method.state_dict()
    assert alone.keys() == states[name].keys()
    assert any((alone[key] - start[key]).abs().max() > 1e-4 for key in alone if key.startswith("encoder"))
    for key, value in alone.items():
        torch.testing.assert_close(states[name][key], value, rtol=1e-7, atol=1e-9, msg=lambda m, key=key: f"{key}: {m}")


@pytest.mark.slow
def test_averaged_gradients_of_uneven_parts_are_those_of_the_whole_batch(outcome):
    assert len(outcome["gradients"]) > 20
    for name, (shared, alone) in outcome["gradients"].items():
        torch.testing.assert_close(shared, alone, rtol=1e-7, atol=1e-10, msg=lambda m, name=name: f"{name}: {m}")
