"""Three evaluated runs. The maps are principal components, because UMAP compiles for long and is tested by itself."""

import json
import shutil
from unittest.mock import patch

import numpy as np
import pytest
import torch

from kvicreg.evaluation.evaluate import EvaluationOptions, evaluate


def principal_components(features: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
    u, s, _ = torch.linalg.svd(features - features.mean(0), full_matrices=False)
    return (u * s)[:, :2]


@pytest.fixture(scope="session")
def three_runs(tmp_path_factory, make_run):
    """One run evaluated for real; the others borrow its evaluation, with other numbers and another map."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [make_run(folder / name, seed=seed) for seed, name in enumerate(("rbf", "laplacian", "<b>vic&reg"))]
    with patch("kvicreg.evaluation.maps.umap_points", principal_components):
        evaluate(
            runs[0], EvaluationOptions(robustness_images=50, map_images=200), command=f"kvicreg evaluate {runs[0]}"
        )
    for number, run in enumerate(runs[1:], start=1):
        shutil.copytree(runs[0] / "evaluation", run / "evaluation")
        results = json.loads((runs[0] / "results.json").read_text())
        results["subjects"]["encoder"]["linear_probe"]["value"] -= 0.01 * number
        (run / "results.json").write_text(json.dumps(results))
        arrays = dict(np.load(run / "evaluation" / "map.npz"))
        np.savez(run / "evaluation" / "map.npz", **(arrays | {"points": arrays["points"][:, ::-1]}))
    return runs
