"""Batches are arithmetic on (seed, epoch, batch): no state, any number of processes."""

from __future__ import annotations

import pytest
import torch

from kvicreg.data import ArrayData, batches, count_batches, in_order


@pytest.fixture
def data() -> ArrayData:
    images = torch.arange(100, dtype=torch.uint8)[:, None, None, None].expand(100, 1, 2, 2)
    return ArrayData(images, torch.arange(100) % 7)


def test_images_samples_and_labels_belong_together(data: ArrayData) -> None:
    for images, samples, labels in batches(data, 10, seed=0, epoch=0):
        assert labels is not None
        assert torch.equal(images[:, 0, 0, 0].long(), samples)
        assert torch.equal(labels, samples % 7)


def test_an_epoch_shows_every_sample_once(data: ArrayData) -> None:
    seen = torch.cat([samples for _, samples, _ in batches(data, 30, seed=0, epoch=0, drop_last=False)])
    assert torch.equal(seen.sort().values, torch.arange(100))
    assert len(list(batches(data, 30, seed=0, epoch=0))) == 3


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_any_number_of_processes_sees_the_same_global_batches(data: ArrayData, world_size: int) -> None:
    alone = [samples for _, samples, _ in batches(data, 12, seed=3, epoch=5)]
    ranks = [
        [samples for _, samples, _ in batches(data, 12, seed=3, epoch=5, rank=rank, world_size=world_size)]
        for rank in range(world_size)
    ]
    together = [torch.cat(parts) for parts in zip(*ranks, strict=True)]
    assert len(together) == len(alone) == 8
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize("start", [0, 3, 10])
def test_start_equals_skipping(data: ArrayData, start: int) -> None:
    skipped = list(batches(data, 10, seed=1, epoch=1))[start:]
    started = list(batches(data, 10, seed=1, epoch=1, start=start))
    assert len(skipped) == len(started)
    assert all(torch.equal(a[1], b[1]) and torch.equal(a[0], b[0]) for a, b in zip(skipped, started, strict=True))


def test_start_decodes_nothing_of_what_it_skips(data: ArrayData, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []
    fetch = ArrayData.fetch
    monkeypatch.setattr(ArrayData, "fetch", lambda self, i: fetched.extend(i.tolist()) or fetch(self, i))
    next(batches(data, 10, seed=1, epoch=1, start=4))
    assert len(fetched) == 10


def test_epochs_and_seeds_differ(data: ArrayData) -> None:
    first = [next(batches(data, 50, seed=s, epoch=e))[1].tolist() for s, e in ((0, 0), (0, 1), (1, 0))]
    assert len({tuple(samples) for samples in first}) == 3


def test_in_order_is_the_order_of_the_data(data: ArrayData) -> None:
    assert torch.cat([samples for _, samples, _ in in_order(data, 33)]).tolist() == list(range(100))


def test_counting() -> None:
    assert count_batches(100, 30) == 3
    assert count_batches(100, 30, drop_last=False) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 101}, "batch_size: 101 is more than the 100 images of 'array'"),
        ({"batch_size": 10, "world_size": 3}, "batch_size: expected a multiple of the 3 processes, got 10"),
        ({"batch_size": 10, "rank": 1}, "rank: expected 0 to 0, got 1"),
        ({"batch_size": 10, "start": 11}, "start: expected 0 to 10"),
    ],
)
def test_wrong_arguments_are_named_before_the_first_batch(data: ArrayData, arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(data, seed=0, epoch=0, **arguments)
