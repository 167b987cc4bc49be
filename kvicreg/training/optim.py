"""Optimizers and the learning rate: warm-up, then half a cosine, as a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from kvicreg.training.config import TrainConfig


def learning_rate(step: float, *, total: int, warmup: float, peak: float, final: float = 0.0) -> float:
    """Linear from 0 over `warmup` steps, then peak to final along half a cosine; `step` counts from 0."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    progress = min(1.0, (step - warmup) / max(1.0, total - warmup))
    return final + (peak - final) * 0.5 * (1 + math.cos(math.pi * progress))


MIXTURE_RATE = 30.0
"""The learning rate of a mixture's shares, in units of the network's: few, while Adam's steps are of one size."""


def build_optimizer(module: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer of a config; biases and normalisation weights (fewer than two dimensions) are not decayed."""
    shares = [p for name, p in module.named_parameters() if name.endswith("kernel.logits")]
    parameters = [p for p in module.parameters() if p.requires_grad and not any(p is share for share in shares)]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups.append({"params": shares, "weight_decay": 0.0, "rate": MIXTURE_RATE})
    groups = [group for group in groups if group["params"]]
    rate = config.learning_rate
    if config.optimizer == "adam":
        return torch.optim.Adam(groups, lr=rate)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=rate)
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=config.momentum)
    return LARS(groups, lr=rate, momentum=config.momentum)


class LARS(torch.optim.Optimizer):
    """SGD with momentum whose step on each weight is scaled by the ratio of norms (You, Gitman and Ginsburg, 2017).

        g' = g + decay * w;   v = momentum * v + trust * |w| / |g'| * g';   w = w - lr * v

    The ratio is left at 1 for biases and normalisation (fewer than two dimensions), and where a norm is zero.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 1e-3,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad.add(p, alpha=group["weight_decay"])
                if p.ndim > 1:
                    ratio = group["trust"] * p.norm() / g.norm()
                    g = g * torch.where(torch.isfinite(ratio) & (ratio > 0), ratio, torch.ones_like(ratio))
                velocity = self.state[p].setdefault("velocity", torch.zeros_like(p))
                velocity.mul_(group["momentum"]).add_(g)
                p.add_(velocity, alpha=-group["lr"])
        return loss
