"""From 16 images up it trains: the batch size follows their number unless it is fixed, and it says what to expect."""

from __future__ import annotations

import pytest
import torch

from kvicreg.data import ArrayData
from kvicreg.runs import RunFolder, Settings, load_encoder
from kvicreg.runs.settings import ScheduleOptions
from kvicreg.training import train


def some(count):
    generator = torch.Generator().manual_seed(0)
    return ArrayData(torch.randint(0, 256, (count, 3, 16, 16), generator=generator, dtype=torch.uint8), name="few")


@pytest.mark.parametrize(("count", "expected"), [(16, 8), (120, 24), (1000, 248), (2048, 512), (10**6, 512)])
def test_the_batch_size_is_512_or_a_quarter_of_the_images(count, expected):
    assert ScheduleOptions().batch_size_for(count) == expected
    assert ScheduleOptions(batch_size=100).batch_size_for(count) == 100
    assert ScheduleOptions().batch_size_for(count, processes=3) % 3 == 0


@pytest.mark.parametrize("count", [16, 120])
def test_few_images_train_and_it_says_what_to_expect(tmp_path, capsys, count):
    folder = train(Settings.of(width=0.25, epochs=2, out=str(tmp_path / "run")), data=some(count))
    told = " ".join(capsys.readouterr().out.split())
    size = 8 if count == 16 else 24
    assert f"batches of {size}" in told
    assert f"{count} images are few" in told
    assert RunFolder(folder).settings.schedule.batch_size == size
    features = load_encoder(folder)(torch.rand(2, 3, 16, 16))
    assert features.isfinite().all()


def test_fewer_are_refused_and_so_is_a_batch_that_was_fixed(tmp_path):
    out = str(tmp_path / "run")
    with pytest.raises(ValueError, match="15 images are too few: training needs at least 16"):
        train(Settings.of(out=out), data=some(15), quiet=True)
    with pytest.raises(ValueError, match="batch_size 512 is more than the 120 images"):
        train(Settings.of(out=out, batch_size=512), data=some(120), quiet=True)
    assert not (tmp_path / "run").exists()
