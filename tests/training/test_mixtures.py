"""Mixtures and adaptive kernels from a config to metrics.csv."""

import csv
from dataclasses import replace

import pytest

from kvicreg import kernels
from kvicreg.training.build import build_kernel
from kvicreg.training.run import train


def test_learnt_shares_are_logged_every_epoch(tiny_config, tiny_data):
    config = replace(tiny_config, kernel="rbf+linear", learn_mixture=True, epochs=3)
    folder = train(config, data=tiny_data, quiet=True)
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    shares = [(float(row["share_1_RBF"]), float(row["share_2_Linear"])) for row in rows]
    assert all(sum(pair) == pytest.approx(1, abs=1e-4) for pair in shares)
    assert len(set(shares)) == 3, "the shares learn"


@pytest.mark.parametrize("kernel", ["multi-rbf", "self-tuning", "0.3*rbf+0.7*linear"])
def test_kernels_of_the_command_line_train(tiny_config, tiny_data, kernel):
    config = replace(tiny_config, kernel=kernel, per_dimension=True, epochs=1, out=None, max_steps=1)
    assert "*" not in config.folder.name
    assert train(replace(config, out=tiny_config.out), data=tiny_data, quiet=True).is_dir()


def test_settings_of_kernels(tiny_config):
    kernel = build_kernel(replace(tiny_config, kernel="rbf", bandwidth_multiple=2.0))
    assert kernel.gamma.multiple == 2.0
    assert build_kernel(replace(tiny_config, kernel="self-tuning", neighbours=3)).neighbours == 3
    assert isinstance(build_kernel(replace(tiny_config, per_dimension=True)), kernels.PerDimension)
    with pytest.raises(ValueError, match="can't go with a fixed gamma"):
        build_kernel(replace(tiny_config, gamma=1.0, bandwidth_multiple=2.0))
    with pytest.raises(ValueError, match="the rbf kernel has no alpha, distance_norm"):
        build_kernel(replace(tiny_config, alpha=2.0, distance_norm=1))
    with pytest.raises(ValueError, match="learn_mixture is for kernel-vicreg"):
        build_kernel(replace(tiny_config, kernel="rbf+rq", learn_mixture=True, method="kernel-byol"))
