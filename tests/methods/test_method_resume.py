"""Everything a method remembers is in its state_dict: a run that is stopped and resumed ends bit for bit the same."""

from __future__ import annotations

import lightning.pytorch as pl
import pytest
import torch
from small_methods import NAMES, STEPS, advance, build, optimizer_of

from kvicreg.data import ArrayData
from kvicreg.runs import Settings
from kvicreg.training import train


@pytest.mark.parametrize("name", NAMES)
def test_a_fresh_method_continues_from_the_state_dict(name):
    whole, broken, fresh = build(name, norm="batch"), build(name, norm="batch"), build(name, seed=1, norm="batch")
    advance(whole, optimizer_of(whole), range(STEPS))
    optimizer = optimizer_of(broken)
    advance(broken, optimizer, range(3))
    fresh.load_state_dict(broken.state_dict())
    continued = optimizer_of(fresh)
    continued.load_state_dict(optimizer.state_dict())
    advance(fresh, continued, range(3, STEPS))
    for key, value in whole.state_dict().items():
        assert value.equal(fresh.state_dict()[key]), key


class StopAt(pl.Callback):
    """Ends training as ctrl-C does, after so many batches."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def on_train_batch_end(self, trainer, module, *_) -> None:
        if module.batches_done == self.batches:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("moco", {"queue": 48}),
        ("swav", {"queue": 48, "prototypes": 8, "local_crops": 1}),
        ("dino", {"prototypes": 16, "local_crops": 2, "views_per_image": 3}),
        ("kernel-vicreg", {"views_per_image": 3, "local_crops": 2, "accumulate": 2}),
        ("kernel-vicreg", {"views_per_image": 4, "spectrum": "shared"}),
        ("kernel-byol", {"kernel": "rq", "bandwidth": "median", "bandwidth_momentum": 0.5}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_run_that_is_stopped_and_resumed_ends_in_the_same_state(tmp_path, method, options):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 255, (96, 1, 16, 16), generator=generator, dtype=torch.uint8)
    data = ArrayData(images, torch.arange(96) % 3, name="noise", class_names=["a", "b", "c"])

    def config(folder):
        return Settings.of(
            method=method, data="noise", views="digits", out=str(tmp_path / folder), epochs=2, batch_size=24,
            width=0.25, pool=1, projector_hidden=16, projector_outputs=8, spectrum_images=16, probe_images=0,
            checkpoint_steps=1, accelerator="cpu", **options,
        )  # fmt: skip

    train(config("whole"), data=data, quiet=True)
    with pytest.raises(KeyboardInterrupt):
        train(config("broken"), data=data, quiet=True, callbacks=[StopAt(6)])
    train(config("broken"), data=data, quiet=True, resume=True)
    whole, resumed = (torch.load(tmp_path / f / "checkpoints" / "last.ckpt") for f in ("whole", "broken"))
    assert whole["state_dict"].keys() == resumed["state_dict"].keys()
    for key, value in whole["state_dict"].items():
        assert value.equal(resumed["state_dict"][key]), key
