"""What is asked of a tensor before it is computed with: its precision, whether it holds numbers, how often it is
differentiated."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "at_least_float32",
    "check_floating",
    "first_order_only",
    "full_precision",
    "is_concrete",
    "outside_transforms",
    "second_derivative_message",
]


def check_floating(x: Tensor, name: str = "x") -> None:
    """Refuse anything but a floating-point tensor."""
    if not isinstance(x, Tensor):
        hint = "; torch.from_numpy makes one" if type(x).__name__ == "ndarray" else ""
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}{hint}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {x.dtype}; convert it with {name}.float()")


def at_least_float32(x: Tensor, name: str = "x") -> Tensor:
    """`x` in float32, or float64 if it came so; anything but a floating-point tensor is refused."""
    check_floating(x, name)
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """Autocast off, where the device of `x` has it: in half precision a Gram matrix loses its small eigenvalues."""
    check_floating(x)
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def is_concrete() -> bool:
    """Whether tensors hold numbers that Python may look at, so that written gradients and other shortcuts apply.

    They do not while compiling, inside torch.func transforms or in forward-mode differentiation: there the plain
    formulae are used, which torch may transform and differentiate as often as it likes.
    """
    return not (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
    )


def outside_transforms() -> AbstractContextManager[Any]:
    """Where numbers are drawn that do not depend on any input: inside torch.func they would belong to the transform."""
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return nullcontext()
    outside: AbstractContextManager[Any] = torch._C._DisableFuncTorch()
    return outside


class _Refused(torch.autograd.Function):
    """The first argument as it is; it can't be differentiated with respect to any of them."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, message: str, *inputs: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.message = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(ctx.message)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> None:
        raise RuntimeError(ctx.message)


def first_order_only(gradient: Tensor, subject: str, *inputs: Tensor) -> Tensor:
    """A written gradient of `inputs` that raises when it is differentiated itself."""
    if is_concrete() and not torch.is_grad_enabled():
        return gradient
    refused: Tensor = _Refused.apply(gradient, second_derivative_message(subject), *inputs)
    return refused


def second_derivative_message(subject: str) -> str:
    """What a refusal says."""
    return f"kvicreg: second derivatives of {subject} are not supported; it can be differentiated once"
