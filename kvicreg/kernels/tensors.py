"""What is asked of a tensor before it is computed with: its precision, and whether it holds numbers."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["at_least_float32", "full_precision", "is_concrete"]


def at_least_float32(x: Tensor, name: str = "x") -> Tensor:
    """`x` in float32, or float64 if it came so; anything but a floating-point tensor is refused."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {x.dtype}; convert it with {name}.float()")
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def full_precision(x: Tensor) -> torch.autocast:
    """Autocast off: in half precision a Gram matrix loses its small eigenvalues."""
    return torch.autocast(device_type=x.device.type if isinstance(x, Tensor) else "cpu", enabled=False)


def is_concrete(x: Tensor) -> bool:
    """Whether `x` holds numbers that Python may look at: not while compiling, not inside torch.func transforms."""
    return not torch.compiler.is_compiling() and not torch._C._functorch.is_functorch_wrapped_tensor(x)
