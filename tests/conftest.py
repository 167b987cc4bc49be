"""Fixtures that several folders of tests share."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.models import Projector, build_encoder
from kvicreg.runs import RunFolder, Settings, save_encoder

METRICS = [
    "epoch",
    "step",
    "loss",
    "invariance",
    "variance",
    "covariance",
    "effective_rank",
    "effective_rank_bound",
    "top_eigenvalue",
    "embedding_scale",
    "bandwidth",
    "learning_rate",
    "images_per_second",
    "probe_accuracy",
    "knn_accuracy",
    "warning",
]


def write_run(folder: Path, *, seed: int = 0, data: str = "digits", epochs: int = 4, **settings: Any) -> Path:
    """A run folder as training leaves it, with an untrained small encoder for 16 x 16 grey images."""
    torch.manual_seed(seed)
    encoder = build_encoder("small-cnn", 1, 16, width=0.25)
    projector = Projector(int(encoder.feature_dim), 32, 16, 2)
    save_encoder(encoder, folder, image_size=16, mean=[0.3], std=[0.37], data=data, projector=projector)
    run = RunFolder(folder)
    small = {"image_size": 16, "channels": 1, "width": 0.25, "views": "digits"}
    run.write_settings(Settings.of(**(small | {"data": data, "epochs": epochs, "seed": seed} | settings)))
    rng = np.random.default_rng(seed)
    rows = []
    for epoch in range(epochs):
        values = dict.fromkeys(METRICS, round(float(np.exp(-epoch) + 0.1 * rng.random()), 4))
        warning = "embeddings shrink" if epoch == 1 else ""
        rows.append(values | {"epoch": epoch, "step": 10 * epoch, "effective_rank_bound": 63, "warning": warning})
    run.write_metrics(rows)
    eigenvalues = np.sort(rng.random((epochs, 20)) ** np.linspace(6, 2, epochs)[:, None])[:, ::-1]
    run.write_spectra(np.arange(epochs), eigenvalues.astype(np.float32))
    return folder


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Path]:
    """`make_run(folder, seed=0, data="digits", ...)` writes a run folder in the format of training."""
    return write_run


@pytest.fixture(autouse=True, scope="session")
def the_process_as_it_is():
    """Commands that tests call in this process do not change how it allocates memory, which other tests measure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvicreg.cli.set_up", lambda: None)
        yield


@pytest.fixture(scope="session", params=["generated", "real"])
def slices(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny-imagenet-200/ and photos/, small parts of both: pictures made up, and real ones."""
    if request.param == "generated":
        return write_slices(tmp_path_factory.mktemp("slices"))
    named = os.environ.get("KVICREG_TEST_DATA")
    if not named:
        pytest.skip("KVICREG_TEST_DATA does not name a folder with real images (tiny-imagenet-200/ and photos/)")
    return Path(named)


def write_slices(root: Path) -> Path:
    """Ten classes of Tiny ImageNet and of photographs in their published layouts, with smooth random pictures."""
    rng = np.random.default_rng(0)
    classes = {f"n{number:08}": "goldfish" if number == 1 else f"thing {number}" for number in range(1, 11)}

    def write(path: Path, width: int, height: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).save(path)

    tiny, photos, annotations = root / "tiny-imagenet-200", root / "photos", ""
    for number, wnid in enumerate(classes):
        for k in range(40):
            write(tiny / "train" / wnid / "images" / f"{wnid}_{k}.JPEG", 64, 64)
        for k in range(10):
            write(tiny / "val" / "images" / f"val_{10 * number + k}.JPEG", 64, 64)
            annotations += f"val_{10 * number + k}.JPEG\t{wnid}\t0\t0\t63\t63\n"
        for split, count in (("train", 12), ("val", 4)):
            for k in range(count):
                write(photos / split / wnid / f"{k}.JPEG", *rng.integers(230, 400, 2).tolist())
    (tiny / "val" / "val_annotations.txt").write_text(annotations)
    (tiny / "wnids.txt").write_text("\n".join(classes))
    (tiny / "words.txt").write_text("".join(f"{wnid}\t{words}\n" for wnid, words in classes.items()))
    return root


FLAGS = """--headless=new --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader --no-first-run
    --disable-background-networking --disable-component-update --disable-sync --window-size=1200,1000"""


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs chromium and chromedriver")
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

    def wait(condition, seconds: float = 60.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if outcome := condition():
                return outcome
            time.sleep(0.05)
        raise AssertionError("it did not happen")

    return wait


@pytest.fixture
def load_page(browser, wait_for):
    """`load_page(address)`: the browser with a page that is ready, and with no messages but those of the page."""

    def load(address: str):
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(address)
        wait_for(lambda: browser.execute_script("return document.documentElement.dataset.ready === 'yes'"))
        return browser

    return load
