"""Three evaluated runs. The maps are principal components, because UMAP compiles for long and is tested by itself."""

import json
import shutil
import time
from unittest.mock import patch

import numpy as np
import pytest
import torch

from kvicreg.evaluation.evaluate import Options, evaluate


def principal_components(features: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
    u, s, _ = torch.linalg.svd(features - features.mean(0), full_matrices=False)
    return (u * s)[:, :2]


@pytest.fixture(scope="session")
def three_runs(tmp_path_factory, make_run):
    """One run evaluated for real; the others borrow its evaluation, with other numbers and another map."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [make_run(folder / name, seed=seed) for seed, name in enumerate(("rbf", "laplacian", "<b>vic&reg"))]
    with patch("kvicreg.evaluation.maps.umap_points", principal_components):
        evaluate(runs[0], Options(robustness_images=50, map_images=200), command=f"kvicreg evaluate {runs[0]}")
    for number, run in enumerate(runs[1:], start=1):
        shutil.copytree(runs[0] / "evaluation", run / "evaluation")
        results = json.loads((runs[0] / "results.json").read_text())
        results["subjects"]["encoder"]["linear_probe"]["value"] -= 0.01 * number
        (run / "results.json").write_text(json.dumps(results))
        arrays = dict(np.load(run / "evaluation" / "map.npz"))
        np.savez(run / "evaluation" / "map.npz", **(arrays | {"points": arrays["points"][:, ::-1]}))
    return runs


FLAGS = """--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --window-size=1200,1000"""


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def wait_for():
    """`wait_for(condition)`: what the condition gives once it is true."""

    def wait(condition, seconds: float = 10.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := condition():
                return found
            time.sleep(0.05)
        raise AssertionError("it did not happen")

    return wait
