"""Under torch.distributed the loss is that of the global batch, and so are its gradients after DDP's averaging."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("global_batch_worker.py")


@pytest.fixture(scope="module", params=[(2, ""), (3, ""), (2, "1")], ids=["two", "three", "two-with-three-views"])
def outcome(request):
    processes, three_views = request.param
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", str(WORKER)],
        capture_output=True, text=True, timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1", "THREE_VIEWS": three_views},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.strip().splitlines()[-1])


def test_loss_and_averaged_gradients_are_those_of_one_process_with_the_whole_batch(outcome):
    assert len(outcome["worst"]) > 100
    wrong = {case: error for case, error in outcome["worst"].items() if not error < 1e-7}
    assert not wrong


def test_features_are_reduced_not_gathered(outcome):
    """Where features are the smaller side, nothing but the parts' sizes is gathered."""
    small = [
        case for case in outcome["gathered"] if case.split()[0] == "linear" or case.split()[1] in ("nystrom", "rff")
    ]
    assert small
    assert {outcome["gathered"][case] for case in small if "wide" not in case} == {1}


def test_without_gathering_each_process_has_the_loss_of_its_own_part(outcome):
    assert len(set(outcome["local"])) == len(outcome["local"])
