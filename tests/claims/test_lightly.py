"""Every baseline's loss equals lightly's own class, in value and gradient, where lightly imports (`make peers`).

1. VICReg, convention "official", with every weight; p below and above b.
2. NT-Xent without a memory bank is SimCLR's; with one, filled, it is InfoNCE.
3. Barlow Twins; `eps` is that of the batch normalisation inside lightly's.
4. SwAV with two views, with smaller crops, and with a queue.
5. DINO with two and four student views, and the moving centre over several steps.
6. SimSiam and BYOL from the negative cosine similarity.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kvicreg import losses
from tests.torchvision_stub import import_or_skip

lightly = import_or_skip("lightly.loss")

SHAPES = [(12, 5), (5, 12)]


@pytest.fixture(params=SHAPES, ids=str)
def draw(request):
    """`draw(n)`: n leaves ``(b, p)`` in float64."""
    generator = torch.Generator().manual_seed(16)

    def leaves(count: int, scale: float = 1.0) -> list[Tensor]:
        values = scale * torch.randn(count, *request.param, generator=generator, dtype=torch.float64)
        return [value.clone().requires_grad_() for value in values]

    return leaves


def assert_same(ours: Tensor, theirs: Tensor, leaves: list[Tensor]) -> None:
    """Equal values and gradients, to 1e-8."""
    expected = torch.autograd.grad(theirs.sum(), leaves)
    torch.testing.assert_close(ours, theirs.reshape(()), rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(torch.autograd.grad(ours, leaves), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("weights", [(25.0, 25.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)], ids=str)
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_vicreg(draw, weights, scale):  # claim 1
    z = draw(2, scale)
    assert_same(losses.VICRegLoss("official", *weights)(*z), lightly.VICRegLoss(*weights)(*z), z)


@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_nt_xent(draw, temperature):  # claim 2
    z = draw(2)
    assert_same(losses.NTXentLoss(temperature)(*z), lightly.NTXentLoss(temperature)(*z), z)


def test_info_nce_is_nt_xent_with_a_memory_bank(draw):  # claim 2
    queries, keys = draw(2)
    bank = torch.nn.functional.normalize(torch.randn(9, keys.shape[1], dtype=torch.float64))
    peer = lightly.NTXentLoss(0.2, memory_bank_size=(len(bank), keys.shape[1]))
    peer.memory_bank.bank = bank.clone()
    theirs = peer(queries, keys.detach())
    assert_same(losses.InfoNCELoss(0.2)(queries, keys, bank), theirs, [queries])


@pytest.mark.parametrize("weight", [0.0, 0.0051, 1.0])
def test_barlow_twins(draw, weight):  # claim 3
    z = draw(2)
    assert_same(losses.BarlowTwinsLoss(weight)(*z), lightly.BarlowTwinsLoss(weight)(*z), z)


@pytest.mark.parametrize("crops", [0, 3])
@pytest.mark.parametrize("queue", [False, True])
def test_swav(draw, crops, queue):  # claim 4
    scores = draw(2 + crops, 0.2)
    former = torch.stack(draw(2, 0.2)).detach() if queue else None
    theirs = lightly.SwaVLoss()(scores[:2], scores[2:], None if former is None else list(former))
    assert_same(losses.SwAVLoss()(*scores, former=former), theirs, scores)


@pytest.mark.parametrize("views", [2, 4])
def test_dino(draw, views):  # claim 5
    first = draw(1)[0]
    sharp = 2.0**-4  # lightly rounds this temperature to float32, where a power of two is exact
    ours = losses.DINOLoss(first.shape[1], teacher_temperature=sharp, centre_momentum=0.8).double()
    peer = lightly.DINOLoss(first.shape[1], teacher_temp=sharp, center_momentum=0.8).double()
    for _ in range(3):
        teacher, student = [t.detach() for t in draw(2)], draw(views)
        assert_same(ours(torch.stack(teacher), *student), peer(teacher, student), student)
        torch.testing.assert_close(ours.centre, peer.center.flatten(), rtol=1e-8, atol=1e-12)


def test_simsiam_and_byol(draw):  # claim 6
    q1, q2, t1, t2 = draw(4)
    cosine = lightly.NegativeCosineSimilarity()
    theirs = 0.5 * (cosine(q1, t2.detach()) + cosine(q2, t1.detach()))
    assert_same(losses.SimSiamLoss()(q1, q2, t1, t2), theirs, [q1, q2])
    theirs = sum(2 + 2 * cosine(q, t.detach()) for q, t in ((q1, t2), (q2, t1)))
    assert_same(losses.BYOLLoss()(q1, q2, t1, t2), theirs, [q1, q2])
