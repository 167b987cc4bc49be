"""What a run trains on and what it writes down of the spectrum."""

from __future__ import annotations

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from sklearn.decomposition import KernelPCA

from kvicreg import kernels
from kvicreg.data import hold_out, load
from kvicreg.runs import Settings
from kvicreg.training import train
from kvicreg.training.monitor import spectrum


class SeenImages(pl.Callback):
    """Every image that a step is given, as bytes."""

    def __init__(self) -> None:
        self.images: set[bytes] = set()

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        self.images |= {image.numpy().tobytes() for image in batch[0].cpu()}


def test_images_that_are_held_out_are_not_trained_on(tmp_path):
    seen = SeenImages()
    small = {"width": 0.25, "projector_hidden": 16, "projector_outputs": 16, "probe_images": 0, "batch_size": 512}
    settings = Settings.of(data="mnist-small", holdout=7000, epochs=1, out=str(tmp_path / "run"), **small)
    train(settings, callbacks=[seen], quiet=True)
    rest, held_out = hold_out(load("mnist-small"), 7000)
    assert seen.images <= {image.numpy().tobytes() for image in rest.fetch(torch.arange(len(rest)))}
    assert len(seen.images) > 0.9 * (len(rest) // 512 * 512)
    assert not seen.images & {image.numpy().tobytes() for image in held_out.fetch(torch.arange(len(held_out)))}


@pytest.mark.parametrize("kernel", [None, kernels.RBF(gamma=0.3)], ids=["linear", "rbf"])
def test_the_recorded_spectrum_is_that_of_kernel_pca_which_centres(kernel):
    z = torch.randn(20, 5, generator=torch.Generator().manual_seed(0)) + 3
    pca = KernelPCA(kernel="linear" if kernel is None else "rbf", gamma=0.3).fit(z.double().numpy())
    recorded = spectrum(z, kernel)
    expected = pca.eigenvalues_ / len(z)
    np.testing.assert_allclose(recorded.eigenvalues.numpy()[: len(expected)], expected, rtol=1e-4, atol=1e-6)
    assert recorded.top_eigenvalue == pytest.approx(expected[0], rel=1e-5)
    shares = expected / expected.sum()
    assert recorded.effective_rank == pytest.approx(np.exp(-np.sum(shares * np.log(shares))), rel=1e-4)
