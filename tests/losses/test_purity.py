"""A loss changes nothing outside itself, and itself only in a step of training."""

import copy
import threading

import pytest
import torch

from kvicreg import KernelVICRegLoss, kernels, losses, operators
from kvicreg.operators import eigenvalues as solver

VIEWS = torch.randn(2, 12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LATER = 3 * VIEWS + torch.arange(4)


def smoothed():
    return kernels.RBF(kernels.Median(momentum=0.5))


LOSSES = {
    "kernel vicreg": lambda: KernelVICRegLoss(smoothed()),
    "mixture": lambda: KernelVICRegLoss(kernels.Mixture([smoothed(), kernels.Linear()], learnable=True)),
    "redrawn": lambda: KernelVICRegLoss(smoothed(), approximation=operators.RandomFourier(16, redraw=True)),
    "kernel barlow twins": lambda: losses.KernelBarlowTwinsLoss(smoothed()),
    "ssl-hsic": lambda: losses.SSLHSICLoss(smoothed()),
}
WITHOUT_TERMS = {
    "kernel simclr": (lambda: losses.KernelSimCLRLoss(smoothed()), 2),
    "kernel byol": (lambda: losses.KernelBYOLLoss(smoothed()), 4),
}


def state(criterion):
    return {name: value.clone() for name, value in criterion.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_moves_it_once_and_looking_at_terms_never(name):
    criterion = LOSSES[name]().double()
    start = state(criterion)
    for _ in range(3):
        criterion.terms(*VIEWS)
    torch.testing.assert_close(state(criterion), start, equal_nan=True)
    criterion(*VIEWS)
    after = state(criterion)
    moved = [n for n in after if not torch.equal(after[n], start[n]) and "logits" not in n]
    assert len(moved) == len([n for n in after if "logits" not in n]) > 0
    for _ in range(3):
        criterion.terms(*LATER)
    assert same(state(criterion), after)
    assert type(criterion.step(*LATER)) is type(criterion.terms(*VIEWS))
    assert not same(state(criterion), after)


@pytest.mark.parametrize("name", LOSSES)
def test_step_and_call_are_the_same(name):
    called, stepped = LOSSES[name]().double(), LOSSES[name]().double()
    for scale in (1.0, 3.0):
        torch.testing.assert_close(called(*(scale * VIEWS)), stepped.step(*(scale * VIEWS)).total)
    assert same(state(called), state(stepped))


@pytest.mark.parametrize("name", WITHOUT_TERMS)
def test_losses_without_terms_move_once_per_call_in_training(name):
    make, count = WITHOUT_TERMS[name]
    criterion = make().double()
    inputs = torch.randn(count, 12, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    criterion(*inputs)
    first = state(criterion)
    assert bool(first["kernel.gamma.running"].isfinite())
    criterion.eval()(*(inputs + 1))
    assert same(state(criterion), first)
    criterion.train()(*(inputs + torch.arange(4)))
    assert not same(state(criterion), first)


@pytest.mark.parametrize("mode", ["eval", "no_grad", "torch.func"])
@pytest.mark.parametrize("name", LOSSES)
def test_nothing_moves_outside_a_training_step(name, mode):
    criterion = LOSSES[name]().double()
    criterion(*VIEWS)
    before = state(criterion)
    if mode == "eval":
        criterion.eval()(*LATER)
    elif mode == "no_grad":
        with torch.no_grad():
            criterion(*LATER)
    else:
        torch.func.grad(criterion)(*LATER)
    assert same(state(criterion), before)


def test_a_run_resumes_exactly_from_the_state():
    first = KernelVICRegLoss(smoothed(), approximation=operators.RandomFourier(16, redraw=True)).double()
    for step in range(3):
        first((1 + step) * VIEWS[0], VIEWS[1])
    second = KernelVICRegLoss(smoothed(), approximation=operators.RandomFourier(16, redraw=True)).double()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(2):
        assert float(first(*VIEWS)) == float(second(*VIEWS))


def test_other_threads_see_no_change_while_a_loss_is_computed(monkeypatch):
    monkeypatch.setattr(solver, "WORKERS_FROM", 8)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    seen, stop = [], threading.Event()

    def new_thread():
        seen.append((torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()))

    def watch():
        while not stop.is_set():
            new_thread()
            thread = threading.Thread(target=new_thread)
            thread.start()
            thread.join()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(5):
            views = [v.float().repeat(6, 1).requires_grad_() for v in VIEWS]
            KernelVICRegLoss("rbf")(*views).backward()
            KernelVICRegLoss("laplacian").terms(*views)
    finally:
        stop.set()
        watcher.join()
        mine = torch.get_num_threads()
        torch.set_num_threads(before)
    assert len(seen) > 5
    assert set(seen) == {(3, True, torch.float32)}
    assert mine == 3


@pytest.mark.parametrize(
    "make", [lambda: KernelVICRegLoss("rbf"), lambda: KernelVICRegLoss("linear"), losses.VICRegLoss]
)
def test_inputs_and_the_random_state_are_left_alone(make):
    views = [v.clone() for v in VIEWS]
    random = torch.get_rng_state()
    make()(*[v.requires_grad_() for v in views]).backward()
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(ours, given) for ours, given in zip(views, VIEWS, strict=True))


def test_a_setting_is_read_from_the_options_and_can_not_be_changed_behind_them():
    criterion = KernelVICRegLoss("rbf", "paper")
    assert (criterion.threshold, criterion.covariance_weight) == (1.0, 2.0)
    with pytest.raises(AttributeError):
        criterion.threshold = 3.0
