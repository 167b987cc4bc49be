"""A run leaves the folder it promises, the record is true, and labels and probes never touch the encoder."""

from __future__ import annotations

import csv
import sys

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import kvicreg
from kvicreg.data import ArrayData, Views, batches, view_config
from kvicreg.methods import KernelVICReg
from kvicreg.models import Projector
from kvicreg.runs import RunFolder, Settings, load_encoder
from kvicreg.training import SelfSupervised, train
from kvicreg.training.build import build_method
from kvicreg.training.record import COLUMNS


def weights(folder) -> torch.Tensor:
    return torch.cat([p.flatten() for p in load_encoder(folder).encoder.parameters()])


def test_a_run_leaves_a_complete_folder(tiny_config, tiny_data):
    folder = train(tiny_config, data=tiny_data, quiet=True)
    names = {p.name for p in folder.iterdir()}
    assert names == {
        "config.yaml", "metrics.csv", "spectrum.npz", "checkpoints", "encoder.safetensors", "encoder.json",
        "projector.safetensors", "tensorboard",
    }  # fmt: skip
    assert {p.name for p in (folder / "checkpoints").iterdir()} == {"last.ckpt", "best.ckpt"}
    assert any((folder / "tensorboard").iterdir())
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    assert tuple(rows[0]) == COLUMNS
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert [row["step"] for row in rows] == ["3", "6"]
    assert all(float(row[c]) == float(row[c]) for row in rows for c in COLUMNS if c != "warning")
    spectra = np.load(folder / "spectrum.npz")
    assert spectra["epochs"].tolist() == [1, 2]
    assert spectra["eigenvalues"].shape[0] == 2
    assert (np.diff(spectra["eigenvalues"], axis=1) <= 1e-7).all()
    settings = RunFolder(folder).settings
    assert settings.data.image_size == 16
    assert settings.method.loss.variance_weight is not None
    assert settings.flat()["rotation"] == 15
    features = load_encoder(folder)(torch.zeros(2, 1, 16, 16))
    assert features.shape == (2, load_encoder(folder).feature_dim)


def test_a_checkpoint_loads_without_pickle(tiny_config, tiny_data):
    folder = train(tiny_config.replace(epochs=1), data=tiny_data, quiet=True)
    torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)


def test_the_same_config_gives_the_same_weights_and_another_seed_others(tiny_config, tiny_data, tmp_path):
    one, two, other = (
        train(tiny_config.replace(out=str(tmp_path / name), seed=seed), data=tiny_data, quiet=True)
        for name, seed in (("1", 0), ("2", 0), ("3", 1))
    )
    assert weights(one).equal(weights(two))
    assert not weights(one).equal(weights(other))


def test_labels_and_probes_never_touch_the_encoder(tiny_config, tiny_data, tmp_path):
    unlabelled = ArrayData(tiny_data.images, name="squares")
    one = train(tiny_config.replace(out=str(tmp_path / "1")), data=tiny_data, quiet=True)
    two = train(tiny_config.replace(out=str(tmp_path / "2")), data=unlabelled, quiet=True)
    assert weights(one).equal(weights(two))


def test_an_existing_run_is_neither_overwritten_nor_mixed_with(tiny_config, tiny_data, tmp_path):
    folder = train(tiny_config.replace(epochs=1), data=tiny_data, quiet=True)
    before = (folder / "metrics.csv").read_bytes()
    with pytest.raises(FileExistsError, match="--resume .*--overwrite"):
        train(tiny_config, data=tiny_data, quiet=True)
    assert (folder / "metrics.csv").read_bytes() == before
    train(tiny_config, data=tiny_data, quiet=True, overwrite=True)
    assert len((folder / "metrics.csv").read_text().splitlines()) == 3
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "dear.txt").touch()
    with pytest.raises(FileExistsError, match="not a run folder"):
        train(tiny_config.replace(out=str(tmp_path / "photos")), data=tiny_data, quiet=True, overwrite=True)
    assert (tmp_path / "photos" / "dear.txt").exists()


def test_a_run_killed_before_its_settings_are_written_begins_once_more(tiny_config, tiny_data, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_settings", lambda *_: sys.exit("killed"))
        with pytest.raises(SystemExit, match="killed"):
            train(tiny_config, data=tiny_data, quiet=True)
    assert RunFolder(train(tiny_config, data=tiny_data, quiet=True)).is_finished


def test_resuming_a_finished_run_changes_nothing(tiny_config, tiny_data):
    folder = train(tiny_config, data=tiny_data, quiet=True)
    before = weights(folder)
    train(RunFolder(folder).settings, data=tiny_data, quiet=True, resume=True)
    assert weights(folder).equal(before)
    assert len((folder / "metrics.csv").read_text().splitlines()) == 3


def test_init_starts_from_given_weights(tiny_config, tiny_data, tmp_path):
    first = train(tiny_config.replace(epochs=1), data=tiny_data, quiet=True)
    config = tiny_config.replace(init=str(first), image_size=16, channels=1, seed=9)
    torch.testing.assert_close(
        torch.cat([p.flatten() for p in build_method(config).encoder.parameters()]), weights(first)
    )
    with pytest.raises(ValueError, match="does not fit the encoder"):
        build_method(config.replace(width=0.5))


def test_a_loss_that_is_not_finite_stops_the_run_and_spares_the_checkpoint(tiny_config, tiny_data):
    class Poison(pl.Callback):
        def on_train_epoch_start(self, trainer, module):
            if trainer.current_epoch == 1:
                module.method.projector[0].weight.data.fill_(float("nan"))

    with pytest.raises(ValueError, match="learning.rate"):
        train(tiny_config, data=tiny_data, quiet=True, callbacks=[Poison()])
    state = torch.load(f"{tiny_config.record.out}/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    assert all(v.isfinite().all() for v in state.values())


def test_accumulated_steps_average_the_gradients_of_their_batches(tiny_config, tiny_data, tmp_path):
    settings = {"optimizer": "sgd", "momentum": 0.0, "norm": "group", "epochs": 1, "warmup_epochs": 0.0}
    config = tiny_config.replace(**settings, accumulate=3)
    folder = train(config, data=tiny_data, quiet=True)
    # by hand: one step along the mean gradient of the epoch's three batches
    method = build_method(config.replace(image_size=16, channels=1))
    views = Views.of(tiny_data, view_config("digits"))
    for images, samples, _ in batches(tiny_data, 32, seed=0, epoch=0):
        two = [views(images, samples, seed=0, epoch=0, view=v) for v in (0, 1)]
        (method(two, 0).loss / 3).backward()
    for p in method.parameters():
        p.data -= config.optimizer.learning_rate * p.grad
    expected = torch.cat([p.flatten() for p in method.encoder.parameters()])
    torch.testing.assert_close(weights(folder), expected, rtol=1e-4, atol=1e-6)


def test_gradients_are_clipped_to_the_norm_asked_for(tiny_config, tiny_data):
    norms = []

    class Watch(pl.Callback):
        def on_before_optimizer_step(self, trainer, module, optimizer):
            norms.append(torch.stack([p.grad.norm() for p in module.method.parameters()]).norm().item())

    train(tiny_config.replace(clip=0.01, epochs=1), data=tiny_data, quiet=True, callbacks=[Watch()])
    # Lightning clips after this hook: look at the raw norms, then at what Adam was given
    last = torch.load(RunFolder(tiny_config.folder).checkpoint("last"), weights_only=True)
    state = last["optimizer_states"][0]["state"]
    first_moment = torch.cat([s["exp_avg"].flatten() for s in state.values()]).norm()
    assert min(norms) > 0.01
    assert first_moment <= 0.01


def test_a_kernel_option_the_kernel_does_not_have_is_an_error():
    assert Settings.of(kernel="rq", alpha=2.0).method.kernel.build().alpha == 2.0
    with pytest.raises(ValueError, match="nothing reads degree with kernel rbf; it is read by kernel polynomial"):
        Settings.of(kernel="rbf", degree=3)
    with pytest.raises(ValueError, match="with a fixed gamma nothing does"):
        Settings.of(gamma=1.0, bandwidth_momentum=0.9)


def build_loss(settings):
    encoder = nn.Flatten()
    encoder.feature_dim = 4
    return settings.method.build(encoder, Projector(4, 4, 4)).loss


def test_flags_reach_the_loss():
    loss = build_loss(Settings.of(kernel="laplacian", parametrization="paper", covariance_weight=7.0, threshold=0.5))
    assert type(loss.kernel).__name__ == "Laplacian"
    assert (loss.parametrization, loss.covariance_weight, loss.threshold) == ("paper", 7.0, 0.5)
    assert build_loss(Settings.of(method="vicreg", convention="paper")).convention == "paper"
    assert build_loss(Settings.of(approximation="nystrom", components=9)).approximation.landmarks == 9
    assert build_loss(Settings.of(approximation="random-fourier", components=10)).approximation.count == 10


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "vicreg"},
        {"encoder": "resnet18", "width": 0.05},
        {"kernel": "linear", "precision": "bf16-mixed"},
        {"approximation": "nystrom", "components": 8},
        {"approximation": "random-fourier", "components": 16},
        {"optimizer": "lars", "channels_last": False, "deterministic": True},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_variants_train(tiny_config, tiny_data, changes):
    folder = train(tiny_config.replace(epochs=1, **changes), data=tiny_data, quiet=True)
    assert torch.isfinite(weights(folder)).all()


@pytest.mark.parametrize(("has", "precision"), [(True, "bf16-mixed"), (False, "32-true")])
def test_automatic_precision_is_what_the_hardware_is_quick_at(tiny_config, tiny_data, monkeypatch, has, precision):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    automatic = tiny_config.replace(epochs=1, precision="auto")
    folder = train(automatic, data=tiny_data, quiet=True)
    trained = RunFolder(folder).settings
    assert trained.engine.precision == precision
    assert automatic.agrees_with(trained)
    assert not automatic.replace(precision="16-mixed").agrees_with(trained)


def test_somebodys_encoder_and_loader_train_under_their_own_trainer():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
    encoder.feature_dim = 8
    module = SelfSupervised(
        KernelVICReg(encoder, Projector(8, 16, 16)), Settings.of(epochs=1, channels_last=False, warmup_epochs=0)
    )
    before = encoder[1].weight.clone()
    pairs = TensorDataset(torch.randn(48, 1, 8, 8), torch.randn(48, 1, 8, 8))
    trainer = pl.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu"
    )
    trainer.fit(module, DataLoader(pairs, batch_size=16))
    assert trainer.global_step == 3
    assert not encoder[1].weight.equal(before)


def test_the_package_offers_train_and_load_encoder():
    assert kvicreg.train is train
    assert kvicreg.load_encoder is load_encoder
