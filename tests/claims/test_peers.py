"""Every peer's loss equals its paper's formula, written once more in numpy and float64, and passes gradcheck.

1. NT-Xent: equation 1 of SimCLR, averaged over the 2b views; it is also pytorch-metric-learning's `NTXentLoss`.
2. InfoNCE: equation 1 of MoCo, with one positive and the queue's negatives.
3. BYOL: equation 2, the squared distance of unit vectors, both ways. SimSiam: equations 1 and 2.
4. SwAV: equations 2 and 5; the codes are those of Sinkhorn-Knopp on ``exp(scores / epsilon)``.
5. DINO: algorithm 1, with centring and sharpening, over all pairs of teacher and student views.
6. Barlow Twins: equations 1 and 2, with p below and above b.
7. SSL-HSIC: the estimators of HSIC(Z, Y), with a one-hot Y, and HSIC(Z, Z), in their trace forms.
8. No gradient reaches keys, queues, targets, teachers or codes.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss as PeerNTXentLoss

from kvicreg import losses

RNG = np.random.default_rng(6)


def arrays(count, b=7, p=5):
    return [RNG.normal(size=(b, p)) for _ in range(count)]


def tensors(values, grad=False):
    return [torch.from_numpy(v).requires_grad_(grad) for v in values]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def nt_xent(x, y, temperature):
    z = unit(np.concatenate([x, y]))
    n, b = len(z), len(x)
    total = 0.0
    for i in range(n):
        s = z @ z[i] / temperature
        total += -s[(i + b) % n] + np.log(sum(np.exp(s[k]) for k in range(n) if k != i))
    return total / n


def info_nce(q, k, queue, temperature):
    q, k, queue = unit(q), unit(k), unit(queue)
    positive = np.exp((q * k).sum(1) / temperature)
    return np.mean(-np.log(positive / (positive + np.exp(q @ queue.T / temperature).sum(1))))


def sinkhorn_knopp(scores, epsilon, iterations):
    """SwAV's algorithm on the matrix itself: prototypes sum to 1 / k, then samples to 1 / b."""
    q = np.exp(scores / epsilon).T
    k, b = q.shape
    q /= q.sum()
    for _ in range(iterations):
        q /= q.sum(axis=1, keepdims=True) * k
        q /= q.sum(axis=0, keepdims=True) * b
    return (q * b).T


def swav(scores, temperature=0.1, epsilon=0.05, iterations=3, former=None):
    total = 0.0
    for v in range(2):
        seen = scores[v] if former is None else np.concatenate([scores[v], former[v]])
        codes = sinkhorn_knopp(seen, epsilon, iterations)[: len(scores[v])]
        others = [w for w in range(len(scores)) if w != v]
        for w in others:
            total -= np.mean((codes * np.log(softmax(scores[w] / temperature))).sum(1)) / len(others)
    return total / 2


def dino(teacher, student, centre, temperature, teacher_temperature):
    found = []
    for v, t in enumerate(teacher):
        p = softmax((t - centre) / teacher_temperature)
        for w, s in enumerate(student):
            if w != v:
                found.append(-np.mean((p * np.log(softmax(s / temperature))).sum(1)))
    return np.mean(found)


def barlow_twins(x, y, weight, eps=1e-5):
    def standard(z):
        return (z - z.mean(0)) / np.sqrt(z.var(0) + eps)

    c = standard(x).T @ standard(y) / len(x)
    on = ((1 - np.diag(c)) ** 2).sum()
    return on + weight * ((c**2).sum() - (np.diag(c) ** 2).sum())


def ssl_hsic(x, y, weight):
    """HSIC(Z, Y) = E k l over pairs, with l = 1 for two views of one image: within images less over all pairs."""
    z, b = unit(np.concatenate([x, y])), len(x)
    n = 2 * b
    k = 1 / np.sqrt(1 + ((z[:, None] - z[None]) ** 2).sum(-1))
    within = sum(k[i, i + b] + k[i + b, i] for i in range(b)) / (b * 2 * (2 - 1))
    h = np.eye(n) - 1 / n
    return weight * np.sqrt(np.trace(k @ h @ k @ h)) / (n - 1) - (within - k.mean())


CASES = {
    "nt-xent": (lambda a, b: losses.nt_xent(a, b, temperature=0.3), lambda a, b: nt_xent(a, b, 0.3), 2),
    "byol": (
        losses.byol,
        lambda q1, q2, t1, t2: sum(((unit(q) - unit(t)) ** 2).sum(1).mean() for q, t in ((q1, t2), (q2, t1))),
        4,
    ),
    "simsiam": (
        losses.simsiam,
        lambda q1, q2, z1, z2: -sum((unit(q) * unit(z)).sum(1).mean() / 2 for q, z in ((q1, z2), (q2, z1))),
        4,
    ),
    "info-nce": (lambda q, k, n: losses.info_nce(q, k, n, temperature=0.4), lambda *a: info_nce(*a, 0.4), 3),
    "swav": (losses.swav, lambda *s: swav(s), 2),
    "swav, three views": (losses.swav, lambda *s: swav(s), 3),
    "dino": (
        lambda t1, t2, *s: losses.dino(torch.stack([t1, t2]), s, centre=torch.full((5,), 0.3)),
        lambda t1, t2, *s: dino([t1, t2], s, 0.3, 0.1, 0.04),
        4,
    ),
    "dino, four views": (
        lambda t1, t2, *s: losses.dino(torch.stack([t1, t2]), s, centre=torch.zeros(5)),
        lambda t1, t2, *s: dino([t1, t2], s, 0.0, 0.1, 0.04),
        6,
    ),
    "barlow twins": (
        lambda a, b: losses.barlow_twins_terms(a, b, weight=0.2).total,
        lambda a, b: barlow_twins(a, b, 0.2),
        2,
    ),
    "ssl-hsic": (losses.SSLHSICLoss(), lambda a, b: ssl_hsic(a, b, 3.0), 2),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(7, 5), (3, 5)], ids=str)
def test_the_loss_is_its_papers_formula(name, shape):  # claims 1 to 7
    ours, reference, count = CASES[name]
    values = arrays(count, *shape)
    if name.startswith(("swav", "dino")):
        values = [0.2 * v for v in values]
    assert float(ours(*tensors(values))) == pytest.approx(reference(*values), rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_gradcheck(name):
    ours, _, count = CASES[name]
    values = [0.3 * v for v in tensors(arrays(count, 5, 5))]
    # those that take part without gradient are held still: a finite difference would see them move
    learnt = {"byol": [0, 1], "simsiam": [0, 1], "info-nce": [0], "dino": [2, 3], "dino, four views": [2, 3, 4, 5]}
    free = learnt.get(name, range(count))
    if name.startswith("swav"):
        codes = [losses.sinkhorn(v) for v in values[:2]]

        def fixed(*scores):
            pairs = [(v, w) for v in range(2) for w in range(count) if v != w]
            each = [-(codes[v] * (scores[w] / 0.1).log_softmax(-1)).sum(1).mean() for v, w in pairs]
            return torch.stack(each).mean()

        inputs = [v.clone().requires_grad_() for v in values]
        expected = torch.autograd.grad(fixed(*inputs), inputs)
        torch.testing.assert_close(torch.autograd.grad(ours(*inputs), inputs), expected)
        return

    def function(*inputs):
        return ours(*[inputs[list(free).index(i)] if i in free else v for i, v in enumerate(values)])

    assert torch.autograd.gradcheck(function, [values[i].clone().requires_grad_() for i in free])


@pytest.mark.parametrize("b", [2, 9])
def test_nt_xent_is_pytorch_metric_learnings(b):  # claim 1
    x, y = tensors(arrays(2, b))
    peer = PeerNTXentLoss(temperature=0.5)(torch.cat([x, y]), torch.arange(b).repeat(2))
    torch.testing.assert_close(losses.NTXentLoss(0.5)(x, y), peer)


@pytest.mark.parametrize("weight", [0.0, 0.0051, 1.0])
@pytest.mark.parametrize("shape", [(12, 4), (4, 12), (6, 6), (2, 3)], ids=str)
def test_barlow_twins_on_either_side(shape, weight):  # claim 6
    x, y = arrays(2, *shape)
    ours = losses.BarlowTwinsLoss(weight).terms(*tensors([x, y]))
    assert float(ours.total) == pytest.approx(barlow_twins(x, y, weight), rel=1e-9)
    assert float(ours.invariance) == pytest.approx(barlow_twins(x, y, 0.0), rel=1e-9)


def test_swav_with_a_queue_makes_codes_of_all_but_predicts_the_batch():  # claim 4
    scores, former = [0.1 * v for v in arrays(2)], 0.1 * RNG.normal(size=(2, 20, 5))
    ours = losses.swav(*tensors(scores), former=torch.from_numpy(former))
    assert float(ours) == pytest.approx(swav(scores, former=former), rel=1e-9)


def test_codes_share_out_the_batch():  # claim 4
    scores = torch.randn(60, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    codes = losses.sinkhorn(scores, iterations=200)
    torch.testing.assert_close(codes.sum(1), torch.ones(60, dtype=torch.float64))
    torch.testing.assert_close(codes.sum(0), torch.full((6,), 10.0, dtype=torch.float64), rtol=1e-3, atol=0)


def test_no_score_overflows_the_codes():  # claim 4
    assert losses.sinkhorn(torch.tensor([[90.0, -90.0], [80.0, 90.0]])).isfinite().all()


def test_dinos_centre_is_a_moving_average_used_before_it_moves():  # claim 5
    criterion = losses.DINOLoss(5, centre_momentum=0.9).double()
    batches = [arrays(4) for _ in range(3)]
    centre = np.zeros(5)
    for t1, t2, s1, s2 in batches:
        ours = criterion(torch.from_numpy(np.stack([t1, t2])), *tensors([s1, s2]))
        assert float(ours) == pytest.approx(dino([t1, t2], [s1, s2], centre, 0.1, 0.04), rel=1e-9)
        centre = 0.9 * centre + 0.1 * np.concatenate([t1, t2]).mean(0)
        np.testing.assert_allclose(criterion.centre.numpy(), centre)
    criterion.eval()(torch.ones(2, 7, 5).double(), *tensors(arrays(2)))
    np.testing.assert_allclose(criterion.centre.numpy(), centre)


@pytest.mark.parametrize("name", ["byol", "simsiam", "info-nce", "dino"])
def test_no_gradient_reaches_targets(name):  # claim 8
    ours, _, count = CASES[name]
    inputs = tensors(arrays(count), grad=True)
    ours(*inputs).backward()
    still = {"byol": [2, 3], "simsiam": [2, 3], "info-nce": [1, 2], "dino": [0, 1]}[name]
    assert all(inputs[i].grad is None or not inputs[i].grad.any() for i in still)
    assert all(inputs[i].grad.any() for i in range(count) if i not in still)
