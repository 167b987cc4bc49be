"""Optimizers by name, with their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import torch
from torch import Tensor, nn

from kvicreg.options import Family, Options, option

__all__ = ["LARS", "OPTIMIZERS", "OptimizerOptions"]

OPTIMIZERS: Family[OptimizerOptions] = Family("optimizer", "kvicreg.optimizers")
MIXTURE_RATE = 30.0
"""The learning rate of a mixture's shares, in units of the network's: few, while Adam's steps are of one size."""


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Options):
    """Settings that every optimizer reads. A new one defines `make`."""

    family: ClassVar[Family[Any]] = OPTIMIZERS
    learning_rate: float = option(1e-3, "Peak learning rate.", above=0)
    weight_decay: float = option(0.0, "Weight decay, on weights but not on biases and normalization.", at_least=0)
    clip: float | None = option(None, "Largest norm of the gradient.", above=0)
    layer_decay: float = option(
        1.0, "Factor on the learning rate from each block of the encoder to the one before it.", above=0, at_most=1
    )

    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """The optimizer of these groups of parameters."""
        raise NotImplementedError(f"{type(self).__name__} must define make()")

    def build(
        self, module: nn.Module, about: Mapping[nn.Parameter, Mapping[str, Any]] | None = None
    ) -> torch.optim.Optimizer:
        """The optimizer of a module; parameters of fewer than two dimensions (biases, normalization) do not decay.

        Args:
            module: what is to learn.
            about: what the group of a parameter is to hold beside, such as its `rate`, a factor on the learning rate.
        """
        shares = [p for name, p in module.named_parameters() if name.endswith("kernel.logits")]
        parameters = [p for p in module.parameters() if p.requires_grad and not any(p is share for share in shares)]
        groups: dict[Any, dict[str, Any]] = {}
        for p in sorted(parameters, key=lambda p: p.ndim <= 1):
            more = dict(about.get(p, {})) if about else {}
            decay = self.weight_decay if p.ndim > 1 else 0.0
            key = (p.ndim > 1, *sorted(more.items()))
            groups.setdefault(key, {"params": [], "weight_decay": decay, **more})["params"].append(p)
        last = [{"params": shares, "weight_decay": 0.0, "rate": MIXTURE_RATE}] if shares else []
        return self.make([*groups.values(), *last])


@dataclass(frozen=True, kw_only=True)
class AdamOptions(OptimizerOptions, name="adam"):
    """Settings of Adam."""

    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.Adam(groups, lr=self.learning_rate)


@dataclass(frozen=True, kw_only=True)
class AdamWOptions(OptimizerOptions, name="adamw"):
    """Settings of AdamW."""

    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(groups, lr=self.learning_rate)


@dataclass(frozen=True, kw_only=True)
class MomentumOptions(OptimizerOptions):
    """Settings of optimizers with momentum."""

    momentum: float = option(0.9, "Momentum.", at_least=0)


@dataclass(frozen=True, kw_only=True)
class SGDOptions(MomentumOptions, name="sgd"):
    """Settings of SGD."""

    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, lr=self.learning_rate, momentum=self.momentum)


@dataclass(frozen=True, kw_only=True)
class LARSOptions(MomentumOptions, name="lars"):
    """Settings of LARS."""

    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return LARS(groups, lr=self.learning_rate, momentum=self.momentum)


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

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
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
