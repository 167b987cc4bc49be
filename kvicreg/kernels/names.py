"""Kernels by name, and mixtures as people write them: "rbf", "rbf+linear", "0.3*rbf+0.7*linear"."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.composite import Mixture, Sum
from kvicreg.kernels.options import KERNELS, KernelOptions, LearnableOptions, named_options
from kvicreg.options import Options, Setting, Values, choice

__all__ = ["MixtureOptions", "get", "make", "read_mixture", "register"]

OF_THE_WHOLE = ("per_dimension", "learn_mixture")
"""Settings that a mixture reads itself and its members do not."""


@dataclass(frozen=True, kw_only=True)
class MixtureOptions(LearnableOptions):
    """The settings of a mixture, those of its members included."""

    name = "NAME+NAME"
    expression: str = field(default="", metadata={"argument": True})
    shares: tuple[float, ...] = field(default=(), metadata={"argument": True})
    members: tuple[KernelOptions, ...] = field(default=(), metadata={"argument": True})

    @property
    def choice(self) -> str:
        return self.expression

    def settings(self) -> Iterator[Setting]:
        every = {setting.name: setting for member in self.members for setting in member.settings()}
        yield from super().settings()
        yield from (setting for name, setting in every.items() if name not in OF_THE_WHOLE)

    def make(self) -> Mixture:
        whole = Sum([member.make() for member in self.members], self.shares).members()
        return Mixture([k for _, k in whole], [float(share) for share, _ in whole], learnable=self.learn_mixture)


KERNELS.members[MixtureOptions.name] = MixtureOptions  # for the list of who reads what; it is chosen by `read_mixture`


def read_mixture(expression: str, values: Values) -> KernelOptions:
    """The options of a mixture, each member with those of the values that it reads; of a single term, the member's."""
    shares, members = [], []
    for term in expression.split("+"):
        share, _, name = term.rpartition("*")
        try:
            member = KERNELS.find(name.strip())
        except ValueError as error:
            hint = "" if share or not name.strip()[:1].isdigit() else "; shares are written 0.3*rbf"
            raise ValueError(str(error).replace(":", f" in {expression!r}:", 1) + hint) from None
        shares.append(_share(share.strip(), expression))
        members.append(member)
    if len(members) == 1:
        return members[0].read(values)
    read = [m.read(values, **{f.name: False for f in fields(m) if f.name in OF_THE_WHOLE}) for m in members]
    compact = expression.replace(" ", "")
    return MixtureOptions.read(values, expression=compact, shares=tuple(shares), members=tuple(read))


def _share(text: str, expression: str) -> float:
    try:
        share = float(text) if text else 1.0
    except ValueError:
        raise ValueError(f"kernel {expression!r}: {text!r} is no share; write 0.3*rbf+0.7*linear") from None
    if not (math.isfinite(share) and share >= 0):
        raise ValueError(f"kernel {expression!r}: shares must be finite and at least 0, got {text}")
    return share


@dataclass(frozen=True, kw_only=True)
class _Chosen(Options):
    kernel: KernelOptions = choice("rbf", KERNELS, "The kernel.")


def make(expression: str, **settings: Any) -> Kernel:
    """The kernel or mixture of that name with settings: those of the command line, by the same names.

    A setting goes to every member of a mixture that reads it; one that none reads is an error.

    Example:
        >>> make("rbf+polynomial", gamma=0.5, degree=3).weights
        [0.5, 0.5]
    """
    return _Chosen.of(kernel=expression, **settings).kernel.build()


def register(name: str, kernel: type[Kernel]) -> type[Kernel]:
    """Make a class of kernels known by a name, in this process: ``kernels.register("toy", Toy)``.

    ``class Toy(Kernel, name="toy")`` does it as well. A package of its own, installed beside this one, is found without
    any import by an entry point of the group "kvicreg.kernels".

    Example:
        >>> class Flat(RBF):
        ...     def profile(self, exponent):
        ...         return (exponent / 2).exp()
        >>> make(register("flat", Flat).Options.name, gamma=1.0)(torch.tensor([[0.0], [2.0]]))
        tensor([[1.0000, 0.1353],
                [0.1353, 1.0000]])
        >>> _ = KERNELS.members.pop("flat")  # forget it again
    """
    if not (isinstance(kernel, type) and issubclass(kernel, Kernel)):
        raise TypeError(f"kernel must be a subclass of kernels.Kernel, got {kernel!r}")
    kernel.Options = named_options(name, kernel)
    return kernel


def get(kernel: str | Kernel) -> Kernel:
    """The kernel or mixture of that name, with default settings; a `Kernel` is returned as it is.

    Example:
        >>> get("rq")
        RationalQuadratic(
          alpha=1
          (gamma): Mean(multiple=1)
        )
        >>> get("0.3*linear+0.7*polynomial").weights
        [0.3, 0.7]
    """
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        got = f"the class: write {kernel.__name__}()" if isinstance(kernel, type) else type(kernel).__name__
        raise TypeError(f"kernel must be a name or a kernels.Kernel, got {got}")
    return make(kernel)
