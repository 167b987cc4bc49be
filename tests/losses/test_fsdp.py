"""The losses see the global batch however the weights are split: FSDP trains as DDP does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvicreg.runs import Settings

WORKER = Path(__file__).with_name("fsdp_worker.py")


def test_fsdp_ends_in_the_weights_of_ddp():
    if not hasattr(pytest.importorskip("torch.distributed.fsdp"), "fully_shard"):
        pytest.skip("torch has fully_shard from 2.6 on")
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(WORKER)],
        capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout.split()[-1]) < 1e-5


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp_cpu_offload", "xla_fsdp", "deepspeed_stage_2", "model_parallel"])
def test_a_strategy_that_splits_the_weights_is_refused_with_the_reason(strategy):
    with pytest.raises(ValueError, match=f"strategy: {strategy} splits the weights .* use ddp"):
        Settings.of(strategy=strategy)
