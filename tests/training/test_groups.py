"""`kvicreg train --groups`: the groups of the training images reach the loss, by the address of each image."""

import pytest

from kvicreg.data import load
from kvicreg.losses import KernelVICRegLoss
from kvicreg.runs import RunFolder
from kvicreg.training.build import build_groups
from kvicreg.training.run import train


@pytest.fixture
def told(monkeypatch):
    """The groups that the loss was told at every step of training."""
    seen = []
    terms = KernelVICRegLoss.terms

    def watched(self, *views, groups=None):
        if groups is not None:  # steps that are only timed have none
            seen.append(groups)
        return terms(self, *views, groups=groups)

    monkeypatch.setattr(KernelVICRegLoss, "terms", watched)
    return seen


def test_every_image_comes_with_its_group(tmp_path, tiny_config, tiny_data, told):
    (tmp_path / "groups.txt").write_text("".join(f"{'few' if i < 10 else 'many'}\n" for i in range(len(tiny_data))))
    folder = train(tiny_config.replace(groups=str(tmp_path / "groups.txt"), epochs=1), data=tiny_data, quiet=True)
    assert sum(int((groups == 0).sum()) for groups in told) == 10  # an epoch shows every image once
    assert all(len(groups) == 32 for groups in told)
    config = RunFolder(folder).settings
    assert (config.method.loss.group_weight, config.method.loss.group_bandwidth) == (0.5, False)


def test_a_part_of_the_images_keeps_their_groups(tmp_path, tiny_config):
    whole = load("mnist-small")
    (tmp_path / "groups.txt").write_text("".join(f"{label}\n" for label in whole.labels.tolist()))
    config = tiny_config.replace(data="mnist-small", images=50, holdout=100, groups=str(tmp_path / "groups.txt"))
    data = config.data.load()
    assert build_groups(config, data).tolist() == data.labels.tolist()


def test_mistakes_are_named(tmp_path, tiny_config, tiny_data):
    (tmp_path / "groups.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match=f"2 names for {len(tiny_data)} train images"):
        train(tiny_config.replace(groups=str(tmp_path / "groups.txt")), data=tiny_data, quiet=True)
    with pytest.raises(ValueError, match="nothing reads groups with method simclr; it is read by method kernel-vicreg"):
        tiny_config.replace(groups=str(tmp_path / "groups.txt"), method="simclr")
    with pytest.raises(ValueError, match="nothing reads group_weight with method vicreg"):
        tiny_config.replace(group_weight=0.3, method="vicreg")
    with pytest.raises(ValueError, match="group_weight is read only with groups"):
        tiny_config.replace(group_weight=0.3)
