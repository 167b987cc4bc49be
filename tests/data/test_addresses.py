"""Random numbers by address: they look random, and depend on the address alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from kvicreg.data.addresses import hashes, key, permutation, uniform


def test_matches_an_independent_implementation_in_unsigned_integers() -> None:
    def mix(x: np.uint64) -> np.uint64:
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        word = np.uint64(0)
        for part in (3, 5, 1):
            word = mix(word + np.uint64(part) + golden)
        samples = np.array([0, 1, 2**40], np.uint64)
        first = mix(samples * golden + word)
        expected = mix(first[:, None] + np.arange(1, 5, dtype=np.uint64) * golden) >> np.uint64(40)
    ours = uniform(torch.tensor([0, 1, 2**40]), 4, seed=3, epoch=5, view=1)
    assert torch.equal(ours, torch.from_numpy(expected.astype(np.float32) / 2**24))


def test_numbers_are_uniform() -> None:
    u = uniform(torch.arange(20_000), 8, seed=0, epoch=0).double().numpy()
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 1 / 2) < 5 * np.sqrt(1 / 12 / u.size)
    assert abs(u.var() - 1 / 12) < 0.001
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("other", ["sample", "parameter", "view", "epoch", "seed"])
def test_neighbouring_addresses_are_uncorrelated(other: str) -> None:
    n = 50_000
    samples = torch.arange(n)
    here = uniform(samples, 2, seed=4, epoch=7, view=0)
    there = {
        "sample": uniform(samples + 1, 2, seed=4, epoch=7, view=0)[:, 0],
        "parameter": here[:, 1],
        "view": uniform(samples, 2, seed=4, epoch=7, view=1)[:, 0],
        "epoch": uniform(samples, 2, seed=4, epoch=8, view=0)[:, 0],
        "seed": uniform(samples, 2, seed=5, epoch=7, view=0)[:, 0],
    }[other]
    pair = np.stack((here[:, 0].numpy(), there.numpy()))
    assert abs(np.corrcoef(pair)[0, 1]) < 5 / np.sqrt(n)
    cells = np.histogram2d(*pair, bins=16)[0].ravel()
    assert stats.chisquare(cells).pvalue > 1e-4


def test_a_sample_gets_the_same_numbers_in_any_batch() -> None:
    whole = uniform(torch.arange(100), 5, seed=1, epoch=2, view=3)
    some = torch.tensor([42, 7, 99])
    assert torch.equal(uniform(some, 5, seed=1, epoch=2, view=3), whole[some])
    assert torch.equal(uniform(some, 3, seed=1, epoch=2, view=3), whole[some, :3])


def test_key_depends_on_the_order_of_its_parts() -> None:
    assert len({key(1, 2), key(2, 1), key(1), key(0, 1, 2), key(-1, 2)}) == 5


def test_hashes_of_distinct_samples_never_tie() -> None:
    assert hashes(torch.arange(200_000), 3, 1, 4).unique().numel() == 200_000


@pytest.mark.parametrize("n", [1, 2, 10, 10_000])
def test_permutation_is_one(n: int) -> None:
    assert torch.equal(permutation(n, seed=0, epoch=0).sort().values, torch.arange(n))


def test_permutations_differ_by_seed_and_epoch_and_repeat() -> None:
    first = permutation(1000, seed=0, epoch=0)
    assert torch.equal(first, permutation(1000, seed=0, epoch=0))
    for other in (permutation(1000, seed=0, epoch=1), permutation(1000, seed=1, epoch=0)):
        assert (first == other).sum() < 12  # one match is expected
        assert abs(stats.spearmanr(first, other).statistic) < 0.15


def test_every_place_is_equally_likely() -> None:
    places = torch.stack([permutation(8, seed=s, epoch=0).argsort() for s in range(4000)])
    counts = torch.stack([(places == k).sum(0) for k in range(8)]).numpy()
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4
