"""Kernels as settings: a family of options that are chosen by name, and what every member of it has.

A kernel joins it by its name, ``class Toy(StationaryKernel, name="toy")``. One with settings of its own leaves the name
to its options, which stand beside it: ``class ToyOptions(StationaryOptions, name="toy")`` with a method `make`.
"""

from __future__ import annotations

import inspect
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kvicreg.kernels.bandwidth import Gamma, Mean, Median
from kvicreg.options import Family, Options, Values, did_you_mean, option

if TYPE_CHECKING:
    from kvicreg.kernels.base import Kernel

__all__ = ["KERNELS", "KernelFamily", "KernelOptions", "LearnableOptions", "StationaryOptions", "named_options"]


class KernelFamily(Family["KernelOptions"]):
    """The kernels by name, in upper or lower case, with "-" or "_"; and mixtures of them, "0.3*rbf+0.7*linear"."""

    def key(self, name: str) -> str:
        return name.strip().lower().replace("-", "_")

    def find(self, name: str) -> type[KernelOptions]:
        members, key = self.load(), self.key(name)
        if key not in members:
            near = did_you_mean(key, self.names())
            names = f"the kernels are {', '.join(self.names())}, and those of installed plugins"
            raise ValueError(f"unknown kernel {name!r}: {f'{near} {names}' if near.startswith('did') else names}")
        return members[key]

    def names(self) -> list[str]:
        return sorted(name for name in self.load() if "+" not in name)

    def read(self, name: str, values: Values) -> KernelOptions:
        if not isinstance(name, str):
            raise ValueError(f"kernel must be a name, such as rbf, got {name!r}")
        if "+" in name or "*" in name:
            from kvicreg.kernels.names import read_mixture

            return read_mixture(name, values)
        return self.find(name).read(values)


KERNELS = KernelFamily("kernel", "kvicreg.kernels")
"""The kernels by name, for `--kernel` and `kernels.make`. ``class Toy(Kernel, name="toy")`` joins them."""


@dataclass(frozen=True, kw_only=True)
class KernelOptions(Options):
    """The settings that every kernel has."""

    family: ClassVar[Family[Any]] = KERNELS
    kernel: ClassVar[Any] = None
    """The class of kernel that these are the options of."""

    per_dimension: bool = option(False, "Give every dimension of the embeddings a scale of its own.")

    def make(self) -> Kernel:
        """The kernel itself, with one scale for all dimensions."""
        return self._of_kernel()

    def _of_kernel(self, **arguments: Any) -> Kernel:
        if self.kernel is None:
            raise NotImplementedError(f"{type(self).__name__} must define make()")
        kernel: Kernel = self.kernel(**arguments)
        return kernel

    def build(self) -> Kernel:
        """The kernel with these settings."""
        from kvicreg.kernels.per_dimension import PerDimension

        return PerDimension(self.make()) if self.per_dimension else self.make()


@dataclass(frozen=True, kw_only=True)
class StationaryOptions(KernelOptions):
    """The settings of kernels that have a bandwidth."""

    gamma: float | None = option(None, "The kernel's scale; by the rule of the bandwidth if not given.", above=0)
    bandwidth: Literal["median", "mean"] = option(
        "mean", "The bandwidth is the mean distance, with its gradient, or the median, held constant in a step."
    )
    bandwidth_momentum: float = option(
        0.0, "Smooth the median over steps: the share of the former one.", at_least=0, below=1
    )
    bandwidth_multiple: float = option(
        1.0, "The bandwidth in units of that distance; above 1 the kernel sees coarser structure.", above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = [
            name
            for name in ("bandwidth", "bandwidth_momentum", "bandwidth_multiple")
            if getattr(self, name) != getattr(type(self), name)
        ]
        if self.gamma is not None and rules:
            both = f"give gamma or {rules[0]}, not both"
            raise ValueError(f"{both}: a bandwidth follows the batch, and with a fixed gamma nothing does")
        if self.bandwidth == "mean" and self.bandwidth_momentum != 0:
            raise ValueError("bandwidth_momentum is read only with bandwidth median, which it smooths over steps")

    def scale(self) -> Gamma:
        """What the kernel's argument `gamma` is to be."""
        if self.gamma is not None:
            return self.gamma
        if self.bandwidth == "mean":
            return Mean(self.bandwidth_multiple)
        return Median(self.bandwidth_multiple, self.bandwidth_momentum)

    def make(self) -> Kernel:
        return self._of_kernel(gamma=self.scale())


@dataclass(frozen=True, kw_only=True)
class LearnableOptions(KernelOptions):
    """The settings of mixtures, whose shares may be learnt."""

    learn_mixture: bool = option(False, "Learn the shares of the mixture with the network.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learn_mixture and self.per_dimension:
            raise ValueError(
                "learn_mixture does not go with per_dimension: the shares of a mixture can't be learnt with a scale "
                "for each dimension; choose one of them"
            )


def named_options(name: str, kernel: type[Kernel]) -> type[KernelOptions]:
    """Options for a kernel that has no settings beyond those of its base class."""
    arguments = inspect.signature(kernel).parameters.values()
    unread = [a.name for a in arguments if a.name != "gamma" and a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)]
    if unread:
        raise TypeError(
            f"nothing would read {', '.join(unread)} of {kernel.__name__}: leave out its name=, and write an options "
            f"class, {kernel.__name__}Options({kernel.Options.__name__}, name={name!r}), with these settings and make()"
        )
    body = {
        "kernel": kernel,
        "__doc__": f"The settings of the {name} kernel.",
        "__module__": kernel.__module__,
        "__qualname__": f"{kernel.__qualname__}.Options",
    }
    made = types.new_class("Options", (kernel.Options,), {"name": name}, lambda namespace: namespace.update(body))
    return dataclass(frozen=True, kw_only=True)(made)
