"""Mixtures and adaptive kernels from a config to metrics.csv."""

import csv

import pytest

from kvicreg import kernels
from kvicreg.training.run import train


def test_learnt_shares_are_logged_every_epoch(tiny_config, tiny_data):
    config = tiny_config.replace(kernel="rbf+linear", learn_mixture=True, epochs=3)
    folder = train(config, data=tiny_data, quiet=True)
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    shares = [(float(row["share_1_RBF"]), float(row["share_2_Linear"])) for row in rows]
    assert all(sum(pair) == pytest.approx(1, abs=1e-4) for pair in shares)
    assert len(set(shares)) == 3, "the shares learn"


@pytest.mark.parametrize("kernel", ["multi-rbf", "self-tuning", "0.3*rbf+0.7*linear"])
def test_kernels_of_the_command_line_train(tiny_config, tiny_data, kernel):
    config = tiny_config.replace(kernel=kernel, per_dimension=True, epochs=1, out=None, max_steps=1)
    assert "*" not in config.folder.name
    assert train(config.replace(out=tiny_config.record.out), data=tiny_data, quiet=True).is_dir()


def test_settings_of_kernels(tiny_config):
    kernel = tiny_config.replace(kernel="rbf", bandwidth_multiple=2.0).method.kernel.build()
    assert kernel.gamma.multiple == 2.0
    assert tiny_config.replace(kernel="self-tuning", neighbours=3).method.kernel.build().neighbours == 3
    assert isinstance(tiny_config.replace(per_dimension=True).method.kernel.build(), kernels.PerDimension)
    with pytest.raises(ValueError, match="with a fixed gamma nothing does"):
        tiny_config.replace(gamma=1.0, bandwidth_multiple=2.0).method.kernel.build()
    with pytest.raises(ValueError, match="nothing reads alpha with kernel rbf"):
        tiny_config.replace(alpha=2.0, distance_norm=1).method.kernel.build()
    with pytest.raises(ValueError, match="learn_mixture is for kernel-vicreg"):
        tiny_config.replace(kernel="rbf+rq", learn_mixture=True, method="kernel-byol").method.kernel.build()
