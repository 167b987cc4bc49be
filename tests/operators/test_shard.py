"""Processes that share a batch, as threads of this one: each holds a part, and together they are the whole."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from kvicreg import KernelVICRegLoss, kernels, losses
from kvicreg.operators import covariance_operator, shard, shared_operator
from kvicreg.operators.shard import Shard
from tests.losses.every_loss import LOSSES

SIZES = (3, 5, 2)


class Threads:
    """What `Shard` needs of torch.distributed, where every thread is a process."""

    def __init__(self, world):
        self.world, self.mine = world, threading.local()
        self.barrier, self.parts = threading.Barrier(world, timeout=60), [None] * world

    def is_available(self):
        return True

    def is_initialized(self):
        return hasattr(self.mine, "rank")

    def get_world_size(self):
        return self.world

    def get_rank(self):
        return self.mine.rank

    def all_gather(self, parts, tensor):
        self.parts[self.mine.rank] = tensor.clone()
        self.barrier.wait()
        for part, other in zip(parts, self.parts, strict=True):
            part.copy_(other)
        self.barrier.wait()

    def all_reduce(self, tensor):
        parts = [torch.empty_like(tensor) for _ in range(self.world)]
        self.all_gather(parts, tensor)
        tensor.copy_(torch.stack(parts).sum(0))

    def run(self, task):
        """``task(rank)`` in every process."""

        def start(rank):
            self.mine.rank = rank
            try:
                return task(rank)
            except BaseException:
                self.barrier.abort()
                raise

        with ThreadPoolExecutor(self.world) as pool:
            return list(pool.map(start, range(self.world)))


@pytest.fixture
def threads(monkeypatch):
    group = Threads(len(SIZES))
    monkeypatch.setattr(shard, "dist", group)
    return group


def views(count=2):
    return torch.randn(count, sum(SIZES), 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("name", LOSSES)
def test_the_mean_of_the_parts_gradients_is_that_of_the_whole_batch(threads, name):
    whole = views().requires_grad_()
    criterion = LOSSES[name](gather=False)
    expected = criterion(*whole)
    expected.backward()
    parts = [part.clone().requires_grad_() for part in views().split(SIZES, dim=1)]
    criteria = [LOSSES[name]() for _ in SIZES]

    def step(rank):
        loss = criteria[rank](*parts[rank])
        loss.backward()
        return loss.detach()

    for loss in threads.run(step):
        torch.testing.assert_close(loss, expected.detach())
    gradient = torch.cat([part.grad for part in parts], dim=1) / len(SIZES)
    torch.testing.assert_close(gradient, whole.grad, rtol=1e-6, atol=1e-9)
    for other in criteria:
        torch.testing.assert_close(other.state_dict(), criterion.state_dict())


@pytest.mark.parametrize("name", LOSSES)
def test_without_gathering_each_process_has_the_loss_of_its_own_part(threads, name):
    parts = torch.randn(3, 2, 12, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = [with_state(LOSSES[name](gather=False), part) for part in parts]
    found = threads.run(lambda rank: with_state(LOSSES[name](gather=False), parts[rank]))
    torch.testing.assert_close(found, expected)
    assert len({float(value.detach()) for value, _ in found}) == 3


def with_state(criterion, inputs):
    """A loss, and what the step has left in it."""
    return criterion(*inputs), criterion.state_dict()


FUNCTIONS = {
    "vicreg": lambda z, **more: losses.vicreg_terms(*z, **more).total,
    "kernel vicreg": lambda z, **more: losses.kernel_vicreg_terms(*z, kernel=kernels.RBF(), **more).total,
    "barlow twins": lambda z, **more: losses.barlow_twins_terms(*z, **more).total,
    "kernel barlow twins": lambda z, **more: losses.kernel_barlow_twins_terms(*z, kernel=kernels.RBF(), **more).total,
    "nt-xent": lambda z, **more: losses.nt_xent(*z, **more),
    "kernel simclr": lambda z, **more: losses.kernel_simclr(*z, kernel=kernels.RBF(), **more),
    "ssl-hsic": lambda z, **more: losses.ssl_hsic_terms(*z, **more).total,
    "swav": lambda z, **more: losses.swav(*z, **more),
    "dino": lambda z, **more: losses.dino(z, [*z], centre=torch.zeros(4), **more),
    "kernel byol": lambda z, **more: losses.kernel_byol(*z, *z, kernel=kernels.RBF(), **more),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_of_the_whole_batch_unless_told_otherwise(threads, name):
    parts = views().split(SIZES, dim=1)
    together = FUNCTIONS[name](views(), gather=False)
    torch.testing.assert_close(threads.run(lambda rank: FUNCTIONS[name](parts[rank])), [together] * 3)
    alone = [FUNCTIONS[name](part, gather=False) for part in parts]
    torch.testing.assert_close(threads.run(lambda rank: FUNCTIONS[name](parts[rank], gather=False)), alone)


@pytest.mark.parametrize(
    "make", [losses.BYOLLoss, losses.SimSiamLoss, losses.KernelBYOLLoss], ids=["byol", "simsiam", "kernel"]
)
def test_losses_of_predictions_are_means_over_the_parts(threads, make):
    whole = views(4)
    kernel = {} if make is not losses.KernelBYOLLoss else {"gather": False}
    expected = make(**kernel)(*whole)
    parts = whole.split(SIZES, dim=1)
    values = threads.run(lambda rank: make()(*parts[rank]))
    if kernel:
        for value in values:
            torch.testing.assert_close(value, expected)
    else:  # DDP averages, over parts of one size
        torch.testing.assert_close(sum(v * n for v, n in zip(values, SIZES, strict=True)) / sum(SIZES), expected)


def test_the_centre_of_dino_is_that_of_the_whole_batch(threads):
    outputs = views(4)
    alone, processes = losses.DINOLoss(4).double(), [losses.DINOLoss(4).double() for _ in SIZES]
    expected = alone(outputs[:2], *outputs[2:])
    parts = outputs.split(SIZES, dim=1)
    for value in threads.run(lambda rank: processes[rank](parts[rank][:2], *parts[rank][2:])):
        torch.testing.assert_close(value, expected)
    for process in processes:
        torch.testing.assert_close(process.centre, alone.centre)


def test_dino_without_gathering_is_of_each_part_alone(threads):
    parts = views(4).split(SIZES, dim=1)
    expected = [with_state(losses.DINOLoss(4).double(), (part[:2], *part[2:])) for part in parts]

    def step(rank):
        return with_state(losses.DINOLoss(4, gather=False).double(), (parts[rank][:2], *parts[rank][2:]))

    torch.testing.assert_close(threads.run(step), expected)


def test_groups_are_those_of_the_whole_batch(threads):
    groups = torch.tensor([0, 1, 2, 0, 1, 1, 0, 3, 1, 0])
    expected = KernelVICRegLoss("rbf", gather=False)(*views(), groups=groups)
    parts, numbers = views().split(SIZES, dim=1), groups.split(SIZES)
    for value in threads.run(lambda rank: KernelVICRegLoss("rbf")(*parts[rank], groups=numbers[rank])):
        torch.testing.assert_close(value, expected)


def test_a_part_knows_its_place_in_the_whole(threads):
    parts = views(1)[0].split(SIZES)
    shards = threads.run(lambda rank: Shard.of(parts[rank], gather=True))
    assert [(s.rows, s.offset, s.total, s.sizes, s.world) for s in shards] == [
        (3, 0, 10, SIZES, 3),
        (5, 3, 10, SIZES, 3),
        (2, 8, 10, SIZES, 3),
    ]
    alone = Shard(5, 0, 5, (5,))
    assert threads.run(lambda rank: Shard.of(parts[1], gather=False)) == [alone] * 3
    assert Shard.of(parts[1], gather=True) == alone  # where no process has been told of the others


def test_a_pair_of_processes_shares_a_batch_too(monkeypatch):
    pair = Threads(2)
    monkeypatch.setattr(shard, "dist", pair)
    assert [s.sizes for s in pair.run(lambda rank: Shard.of(torch.ones(rank + 1, 3), gather=True))] == [(1, 2)] * 2


def test_rows_are_taken_from_whoever_has_them(threads):
    whole, rows = views(), torch.tensor([0, 2, 3, 7, 8, 9])
    parts = whole.split(SIZES, dim=1)
    for taken in threads.run(lambda rank: Shard.of(parts[rank], gather=True).take(parts[rank].unbind(), rows)):
        assert taken.equal(whole[:, rows])


def test_operators_are_those_of_the_whole_only_where_asked(threads):
    whole = views(1)[0]
    parts = whole.split(SIZES)
    expected = covariance_operator(whole, "rbf").eigenvalues()
    for values in threads.run(lambda rank: covariance_operator(parts[rank], "rbf", gather=True).eigenvalues()):
        torch.testing.assert_close(values, expected)
    assert [o.samples for o in threads.run(lambda rank: covariance_operator(parts[rank], "rbf"))] == [*SIZES]
    shared = threads.run(lambda rank: shared_operator([parts[rank]] * 2, kernels.Linear()))
    assert [operator.samples for operator, _ in shared] == [10] * 3


@pytest.mark.parametrize("name", ["gram", "features", "narrow"])
def test_second_derivatives_are_refused(threads, name):
    parts = [part.clone().requires_grad_() for part in views().split(SIZES, dim=1)]

    def twice(rank):
        operator = covariance_operator(parts[rank], "linear" if name == "features" else "rbf", gather=True)
        total = operator.squared_hs_norm().sum() if name != "narrow" else operator.trace().sum()
        (gradient,) = torch.autograd.grad(total, parts[rank], create_graph=True)
        with pytest.raises(RuntimeError, match="second derivatives of a loss over several processes"):
            gradient.square().sum().backward()

    threads.run(twice)
