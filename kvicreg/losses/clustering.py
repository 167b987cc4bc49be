"""Losses of soft assignments to prototypes: SwAV and DINO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.terms import check_positive, stack_views
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = ["DINOLoss", "DINOOptions", "SwAVLoss", "SwAVOptions", "dino", "sinkhorn", "swav"]


@dataclass(frozen=True, kw_only=True)
class SwAVOptions(Options):
    """Settings of `SwAVLoss`."""

    temperature: float = option(0.1, "Temperature of the predictions.", above=0)


class SwAVLoss(nn.Module):
    """``mean over codes v of {1, 2}, mean over views w != v:  -mean_i q_i^v . log softmax(s_i^w / temperature)``

    with scores s of unit embeddings against unit prototypes, and codes q that `sinkhorn` makes of the first two views'
    scores, over the global batch and without gradient: the code of one view is predicted from every other (SwAV; Caron
    et al., 2020).

    Args:
        temperature: that of the predictions, 0.1 as published.
        epsilon: weight of the codes' entropy, 0.05 as published; larger makes softer codes.
        iterations: steps of Sinkhorn-Knopp, 3 as published.
        gather: under `torch.distributed`, codes share out the global batch.

    Shape:
        Two or more views' scores ``(b, prototypes)``; `former` scores ``(2, m, prototypes)`` of embeddings from former
        batches take part in making the codes when the batch is small beside the prototypes.

    Example:
        >>> SwAVLoss()(torch.rand(64, 16), torch.rand(64, 16)).shape
        torch.Size([])
    """

    def __init__(
        self,
        temperature: float = SwAVOptions.temperature,
        epsilon: float = 0.05,
        iterations: int = 3,
        gather: bool = True,
    ) -> None:
        super().__init__()
        check_positive(epsilon=epsilon, iterations=iterations)
        self.temperature = SwAVOptions(temperature=float(temperature)).temperature
        self.epsilon, self.iterations, self.gather = float(epsilon), iterations, gather

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
    temperature: float = SwAVOptions.temperature,
    epsilon: float = 0.05,
    iterations: int = 3,
    gather: bool = True,
) -> Tensor:
    """`SwAVLoss` as a pure function of the views' scores ``(b, prototypes)``.

    Example:
        >>> swav(*torch.randn(2, 64, 8)).shape
        torch.Size([])
    """
    s = stack_views(scores)
    if former is not None and (former.dim() != 3 or former.shape[::2] != (2, s.shape[-1])):
        raise ValueError(f"former must have shape (2, m, {s.shape[-1]}), got {tuple(former.shape)}")
    with full_precision(s):
        shard = Shard.of(s, gather=gather)
        with torch.no_grad():
            all_scores = shard.gather(s[:2].detach())
            if former is not None:
                all_scores = torch.cat([all_scores, former.to(s)], dim=1)
            codes = sinkhorn(all_scores, epsilon=epsilon, iterations=iterations)
            codes = codes[:, shard.offset : shard.offset + shard.rows]
        return _other_views_entropy(codes, (s / temperature).log_softmax(-1), shard)


def _other_views_entropy(targets: Tensor, log_predictions: Tensor, shard: Shard) -> Tensor:
    """Mean cross-entropy of targets ``(2, b, k)`` and the log-predictions ``(v, b, k)`` of the other views."""
    pairs = [(t, w) for t in range(len(targets)) for w in range(len(log_predictions)) if t != w]
    entropies = [-(targets[t] * log_predictions[w]).sum() for t, w in pairs]
    return shard.sum(torch.stack(entropies).mean()) / shard.total


@torch.no_grad()
def sinkhorn(scores: Tensor, *, epsilon: float = 0.05, iterations: int = 3) -> Tensor:
    """Soft assignments ``(..., b, k)`` whose rows sum to 1 and columns nearly to b / k, as near
    ``exp(scores / epsilon)`` as that allows; they come from Sinkhorn-Knopp in logarithms, which no score can overflow.

    Example:
        >>> sinkhorn(torch.randn(64, 8)).sum(1).allclose(torch.ones(64))
        True
    """
    logs = scores / epsilon
    for _ in range(iterations):
        logs = logs - logs.logsumexp(-2, keepdim=True)
        logs = logs - logs.logsumexp(-1, keepdim=True)
    return logs.exp()


@dataclass(frozen=True, kw_only=True)
class DINOOptions(Options):
    """Settings of `DINOLoss`."""

    prototypes: int = option(1024, "Prototypes: the width of the outputs of student and teacher.", at_least=1)
    temperature: float = option(0.1, "Temperature of the student.", above=0)
    teacher_temperature: float = option(0.04, "Temperature of the teacher; lower is sharper.", above=0)


class DINOLoss(nn.Module):
    """``mean over teacher views v, student views w != v:  -mean_i p_i^v . log softmax(s_i^w / temperature)``

    with ``p^v = softmax((t^v - centre) / teacher_temperature)``: the student predicts the teacher's assignment of
    another view (DINO; Caron et al., 2021). The centre is a moving average of the teacher's outputs over the global
    batch; each call in training mode moves it after it was used.

    Args:
        prototypes: k, the width of the outputs; 65536 as published.
        temperature: that of the student, 0.1 as published.
        teacher_temperature: that of the teacher, 0.04 as published; lower is sharper.
        centre_momentum: that of the moving average, 0.9 as published.
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
        prototypes: int = DINOOptions.prototypes,
        temperature: float = DINOOptions.temperature,
        teacher_temperature: float = DINOOptions.teacher_temperature,
        centre_momentum: float = 0.9,
        gather: bool = True,
    ) -> None:
        super().__init__()
        if not 0 <= centre_momentum <= 1:
            raise ValueError(f"centre_momentum must be from 0 to 1, got {centre_momentum}")
        options = DINOOptions(
            prototypes=prototypes,
            temperature=float(temperature),
            teacher_temperature=float(teacher_temperature),
        )
        self.prototypes = options.prototypes
        self.temperature, self.teacher_temperature = options.temperature, options.teacher_temperature
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
            self._move_centre(teacher.detach())
        return loss

    @torch.no_grad()
    def _move_centre(self, teacher: Tensor) -> None:
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
    temperature: float = DINOOptions.temperature,
    teacher_temperature: float = DINOOptions.teacher_temperature,
    gather: bool = True,
) -> Tensor:
    """`DINOLoss` as a pure function of the teacher's ``(2, b, k)`` and the student's outputs ``(b, k)``.

    Example:
        >>> dino(torch.randn(2, 64, 8), [*torch.randn(2, 64, 8)], centre=torch.zeros(8)).shape
        torch.Size([])
    """
    s = stack_views(student)
    if teacher.shape != (2, *s.shape[1:]):
        raise ValueError(f"teacher must have shape {(2, *s.shape[1:])}, as the student has, got {tuple(teacher.shape)}")
    if centre.shape != s.shape[2:]:
        raise ValueError(f"centre must have shape ({s.shape[2]},), as wide as the outputs, got {tuple(centre.shape)}")
    t = stack_views(teacher.unbind()).detach()
    with full_precision(s):
        targets = ((t - centre.to(t)) / teacher_temperature).softmax(-1)
        return _other_views_entropy(targets, (s / temperature).log_softmax(-1), Shard.of(s, gather=gather))
