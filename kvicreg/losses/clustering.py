"""Losses of soft assignments to prototypes: SwAV and DINO."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kvicreg.kernels.pairs import full_precision
from kvicreg.losses.terms import check_positive, stack_views
from kvicreg.operators.shard import Shard

__all__ = ["DINOLoss", "SwAVLoss", "dino", "sinkhorn", "swav"]


class SwAVLoss(nn.Module):
    """SwAV's swapped prediction (Caron et al., 2020): predict the code of one view from every other.

        ``mean over codes v of {1, 2}, mean over views w != v:  -mean_i q_i^v . log softmax(s_i^w / temperature)``

    with scores s of unit embeddings against unit prototypes, and codes q that `sinkhorn` makes of the first two views'
    scores, over the global batch and without gradient.

    Args:
        temperature: of the predictions, 0.1 as published.
        epsilon: entropy of the codes, 0.05 as published.
        iterations: of Sinkhorn-Knopp, 3 as published.
        gather: under `torch.distributed`, codes share out the global batch.

    Shape:
        Two or more views' scores ``(b, prototypes)``; `former` scores ``(2, m, prototypes)`` of embeddings from former
        batches take part in making the codes when the batch is small beside the prototypes.

    Example:
        >>> SwAVLoss()(torch.rand(64, 16), torch.rand(64, 16)).shape
        torch.Size([])
    """

    def __init__(
        self, temperature: float = 0.1, epsilon: float = 0.05, iterations: int = 3, gather: bool = True
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature, epsilon=epsilon, iterations=iterations)
        self.temperature, self.epsilon, self.iterations = float(temperature), float(epsilon), iterations
        self.gather = gather

    def forward(self, *scores: Tensor, former: Tensor | None = None) -> Tensor:
        """The loss, a scalar."""
        return swav(
            *scores,
            former=former,
            temperature=self.temperature,
            epsilon=self.epsilon,
            iterations=self.iterations,
            gather=self.gather,
        )

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}, epsilon={self.epsilon:g}, iterations={self.iterations}"


def swav(
    *scores: Tensor,
    former: Tensor | None = None,
    temperature: float = 0.1,
    epsilon: float = 0.05,
    iterations: int = 3,
    gather: bool = True,
) -> Tensor:
    """`SwAVLoss` as a pure function of the views' scores ``(b, prototypes)``."""
    s = stack_views(scores)
    with full_precision(s):
        shard = Shard.of(s, gather=gather)
        with torch.no_grad():
            seen = shard.gather(s[:2].detach())
            if former is not None:
                seen = torch.cat([seen, former.to(s)], dim=1)
            codes = sinkhorn(seen, epsilon=epsilon, iterations=iterations)
            codes = codes[:, shard.offset : shard.offset + shard.rows]
        return _swapped(codes, (s / temperature).log_softmax(-1), shard)


def _swapped(codes: Tensor, predictions: Tensor, shard: Shard) -> Tensor:
    """Mean cross-entropy of codes ``(2, b, k)`` and log-predictions ``(v, b, k)`` of the other views."""
    pairs = [(c, w) for c in range(len(codes)) for w in range(len(predictions)) if c != w]
    each = [-(codes[c] * predictions[w]).sum() for c, w in pairs]
    return shard.sum(torch.stack(each).mean()) / shard.total


@torch.no_grad()
def sinkhorn(scores: Tensor, *, epsilon: float = 0.05, iterations: int = 3) -> Tensor:
    """Soft assignments ``(..., b, k)``: rows sum to 1, columns nearly to b / k, as near ``exp(scores / epsilon)`` as
    that allows. By Sinkhorn-Knopp in logarithms, which no score can overflow.
    """
    logs = scores / epsilon
    for _ in range(iterations):
        logs = logs - logs.logsumexp(-2, keepdim=True)
        logs = logs - logs.logsumexp(-1, keepdim=True)
    return logs.exp()


class DINOLoss(nn.Module):
    """DINO's self-distillation (Caron et al., 2021): the student predicts the teacher's assignment of another view.

        ``mean over teacher views v, student views w != v:  -mean_i  p_i^v . log softmax(s_i^w / temperature)``,
        ``p^v = softmax((t^v - centre) / teacher_temperature)``

    The centre is a moving average of the teacher's outputs over the global batch; each call in training mode moves it
    after it was used.

    Args:
        prototypes: k, the width of the outputs; 65536 as published.
        temperature: of the student, 0.1 as published.
        teacher_temperature: sharpens the teacher, 0.04 as published.
        centre_momentum: 0.9 as published.
        gather: under `torch.distributed`, centre and mean are those of the global batch.

    Shape:
        teacher ``(2, b, k)``; student: two or more views ``(b, k)``, the first two being those of the teacher.

    Example:
        >>> DINOLoss(16)(torch.randn(2, 64, 16), torch.randn(64, 16), torch.randn(64, 16)).shape
        torch.Size([])
    """

    centre: Tensor

    def __init__(
        self,
        prototypes: int = 1024,
        temperature: float = 0.1,
        teacher_temperature: float = 0.04,
        centre_momentum: float = 0.9,
        gather: bool = True,
    ) -> None:
        super().__init__()
        check_positive(prototypes=prototypes, temperature=temperature, teacher_temperature=teacher_temperature)
        self.prototypes = prototypes
        self.temperature, self.teacher_temperature = float(temperature), float(teacher_temperature)
        self.centre_momentum, self.gather = float(centre_momentum), gather
        self.register_buffer("centre", torch.zeros(prototypes))

    def forward(self, teacher: Tensor, *student: Tensor) -> Tensor:
        """The loss, a scalar."""
        loss = dino(
            teacher,
            student,
            centre=self.centre,
            temperature=self.temperature,
            teacher_temperature=self.teacher_temperature,
            gather=self.gather,
        )
        if self.training:
            self._follow(teacher.detach())
        return loss

    @torch.no_grad()
    def _follow(self, teacher: Tensor) -> None:
        shard = Shard.of(teacher, gather=self.gather)
        mean = shard.sum(teacher.to(self.centre).sum(1).mean(0)) / shard.total
        self.centre.copy_(torch.lerp(mean, self.centre, self.centre_momentum))

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}, teacher_temperature={self.teacher_temperature:g}"


def dino(
    teacher: Tensor,
    student: Sequence[Tensor],
    *,
    centre: Tensor,
    temperature: float = 0.1,
    teacher_temperature: float = 0.04,
    gather: bool = True,
) -> Tensor:
    """`DINOLoss` as a pure function of the teacher's ``(2, b, k)`` and the student's outputs ``(b, k)``."""
    s, t = stack_views(student), stack_views(tuple(teacher)).detach()
    with full_precision(s):
        targets = ((t - centre.to(t)) / teacher_temperature).softmax(-1)
        return _swapped(targets, (s / temperature).log_softmax(-1), Shard.of(s, gather=gather))
