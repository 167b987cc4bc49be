"""The paper's latency and memory figures: the benchmark of the loss, `kvicreg bench loss`."""

from __future__ import annotations

from typing import Any

from experiments.common import Experiment, Job, Result
from kvicreg.benchmarks import loss


class Latency(Experiment, name="figure-latency"):
    """The paper's latency and memory figures (kvicreg bench loss): OUT/bench-loss."""

    def run(self, job: Job) -> Result:
        """Time and memory over width and batch size; the benchmark's own sizes unless it is a trial."""
        few: dict[str, Any] = {"sizes": ("32x256", "32x1024", "64x1024"), "scaling_sizes": (), "repeats": 1}
        few |= {"kernel_names": ("linear", "polynomial", "rbf")}
        loss.run(job.out / "bench-loss", **(few if job.budget == "smoke" else {}))
        return Result(job, [], [])
