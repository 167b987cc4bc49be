"""What every kernel is: a positive-definite function of pairs of points, as an `nn.Module`."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from kvicreg.kernels.bandwidth import MEDIAN_ROWS, Gamma, Median, check_gamma, evenly_spaced
from kvicreg.kernels.options import KernelOptions, StationaryOptions, named_options
from kvicreg.kernels.pairs import AllPairs, MatchedPairs, Pairs, SamePoints
from kvicreg.kernels.tensors import at_least_float32, full_precision, is_concrete

__all__ = ["Kernel", "NormalizedKernel", "StationaryKernel"]


class Kernel(nn.Module):
    """A kernel ``k(x, y) = <phi(x), phi(y)>``.

    A new kernel defines `evaluate` and `unit_value`, and where the defaults below are not true of it, `resolve`,
    `bound` and `rank`. With a name, ``class Toy(Kernel, name="toy")``, it is found by it: ``KernelVICRegLoss("toy")``.

    Example:
        >>> k = 0.3 * RBF(gamma=0.5) + 0.7 * Linear() * Linear()
        >>> k(torch.randn(4, 8)).shape
        torch.Size([4, 4])
    """

    Options: ClassVar[type[KernelOptions]] = KernelOptions
    """The settings by which a kernel with a name is made."""

    def __init_subclass__(cls, name: str | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if name is not None:
            cls.Options = named_options(name, cls)

    def evaluate(self, pairs: Pairs) -> Tensor:
        """The kernel of each of these pairs. Bandwidths must have been resolved."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate(pairs)")

    def resolve(self, *views: Tensor | AllPairs) -> Kernel:
        """The same kernel with its bandwidth fixed for these views; this kernel is left as it is."""
        return self

    def advance(self, *views: Tensor | AllPairs) -> None:
        """Let bandwidths that are smoothed over steps follow these views: a loss calls it once per training step."""

    @property
    def bound(self) -> float:
        """The smallest kappa^2 with k(x, x) <= kappa^2 for all x; infinite when there is none."""
        return math.inf

    def rank(self, dimension: int) -> float:
        """How many directions of feature space can vary, for points with so many coordinates."""
        return math.inf

    def unit_value(self, dimension: int) -> float | Tensor:
        """k(x, x) at an x of that many coordinates with unit variance each, |x|^2 = p."""
        raise NotImplementedError(f"{type(self).__name__} must define unit_value(dimension): k(x, x) where |x|^2 = p")

    def unit(self, dimension: int) -> Kernel:
        """This kernel divided by its `unit_value`, so that different kernels share one scale."""
        value = self.unit_value(dimension)
        return self if isinstance(value, float) and value == 1.0 else (1.0 / value) * self

    # -- the three ways to call it ---------------------------------------------------------------------------

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Gram matrix ``(n, m)`` of the rows of `x` ``(n, p)`` and `y` ``(m, p)``; of `x` alone without `y`."""
        with full_precision(x):
            kernel = self.resolve(x) if y is None else self.resolve(x, y)
            return kernel.evaluate(AllPairs(x, y))

    def paired(self, x: Tensor, y: Tensor) -> Tensor:
        """``k(x_i, y_i)``, shape ``(n,)``, in O(np) once the bandwidth is resolved."""
        with full_precision(x):
            return self.resolve(x, y).evaluate(MatchedPairs(x, y))

    def diagonal(self, x: Tensor) -> Tensor:
        """``k(x_i, x_i)``, shape ``(n,)``, in O(np)."""
        with full_precision(x):
            return self.evaluate(SamePoints(x))

    def squared_distance(self, x: Tensor, y: Tensor) -> Tensor:
        """``|phi(x_i) - phi(y_i)|^2 = k(x_i, x_i) + k(y_i, y_i) - 2 k(x_i, y_i)``, shape ``(n,)``."""
        with full_precision(x):
            return self.resolve(x, y).evaluate_distance(MatchedPairs(x, y))

    def evaluate_distance(self, pairs: MatchedPairs) -> Tensor:
        """`squared_distance` of these pairs; overridden where the three terms cancel."""
        first, second = pairs.at_ends(lambda x: self.evaluate(SamePoints(x)))
        return (first + second - 2 * self.evaluate(pairs)).clamp_min(0)

    # -- random Fourier features ---------------------------------------------------------------------------------

    rotation_invariant = False
    """Whether k depends on |x - y|_2 alone, so that frequencies may be drawn orthogonal."""

    def spectral_noise(self, count: int, dimension: int, generator: torch.Generator) -> Tensor | tuple[Any, ...]:
        """Draws of the spectral density at gamma = 1, ``(count, p)``; `frequencies` brings in gamma."""
        raise ValueError(
            f"{type(self).__name__} has no spectral density, so it has no random Fourier features: "
            "use operators.Nystrom, or a shift-invariant kernel (rbf, laplacian, rational_quadratic)"
        )

    def spectral_key(self) -> tuple[Any, ...]:
        """What `spectral_noise` depends on: kernels with equal keys may share their draws."""
        return (type(self).__name__,)

    def frequencies(self, noise: Any) -> Tensor:
        """Frequencies ``(count, p)`` with ``k(x, y) = E cos(w . (x - y))``."""
        raise NotImplementedError

    # -- composition -------------------------------------------------------------------------------------------

    def __add__(self, other: Kernel) -> Kernel:
        from kvicreg.kernels.composite import Sum

        return Sum([self, other]) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float | Tensor) -> Kernel:
        from kvicreg.kernels.composite import Product, Sum

        if isinstance(other, Kernel):
            return Product([self, other])
        return Sum([self], [other]) if isinstance(other, int | float | Tensor) else NotImplemented

    __rmul__ = __mul__


class NormalizedKernel(Kernel):
    """A kernel with ``k(x, x) = 1`` for every x."""

    @property
    def bound(self) -> float:
        return 1.0

    def unit_value(self, dimension: int) -> float:
        return 1.0


class StationaryKernel(NormalizedKernel):
    """A kernel of the distance alone, ``k = profile(-gamma * distance)`` with ``profile(0) = 1``.

    A new kernel defines `profile`.

    Args:
        gamma: the scale: a positive number, "mean" (one over the mean distance), "median", "smoothed" (the median,
            averaged over steps), or a `kernels.Mean` or `kernels.Median` with settings of its own.

    Example:
        >>> class Cauchy(StationaryKernel):
        ...     def profile(self, exponent):
        ...         return 1 / (1 - exponent)
        >>> Cauchy(gamma=1.0)(torch.tensor([[0.0], [1.0]]))
        tensor([[1.0000, 0.5000],
                [0.5000, 1.0000]])
    """

    Options = StationaryOptions
    rotation_invariant = True
    power = 2
    """The power of the distance in the formula."""

    def __init__(self, gamma: Gamma = "mean") -> None:
        super().__init__()
        self.gamma = check_gamma(gamma)

    def distance(self, pairs: Pairs) -> Tensor:
        """The distance in the formula, without gamma."""
        return pairs.squared_distance

    def profile(self, exponent: Tensor) -> Tensor:
        """The kernel's value at ``-gamma * distance``, which is at most 0 and may be overwritten."""
        raise NotImplementedError(f"{type(self).__name__} must define profile(exponent)")

    def chain(self, grad: Tensor, value: Tensor) -> Tensor:
        """`grad` times the slope of the profile where it has this `value`: optional, derived by autograd if not given.

        A formula of the value alone saves a matrix. It must be made of differentiable operations and return a new
        tensor.
        """
        raise NotImplementedError

    def with_gamma(self, gamma: float | Tensor) -> Self:
        """The same kernel with this scale."""
        fixed = self.__new__(self.__class__)
        fixed.__dict__.update(self.__dict__)
        for kind in ("_modules", "_parameters"):
            fixed.__dict__[kind] = {name: part for name, part in getattr(self, kind).items() if name != "gamma"}
        fixed.gamma = gamma
        return fixed

    def resolve(self, *views: Tensor | AllPairs) -> Kernel:
        if not isinstance(self.gamma, Median):
            return self
        return self.with_gamma(self.gamma.gamma(*self._distances(views), power=self.power))

    def advance(self, *views: Tensor | AllPairs) -> None:
        if isinstance(self.gamma, Median) and self.gamma.momentum:
            self.gamma.advance(*self._distances(views), power=self.power)

    def _distances(self, views: tuple[Tensor | AllPairs, ...]) -> list[Tensor]:
        if isinstance(self.gamma, Median) and self.gamma.has_gradient:
            return [self.distance(AllPairs.of(view)) for view in views]
        return [self.distance(view if isinstance(view, AllPairs) else AllPairs(_few(view))).detach() for view in views]

    def _scale(self) -> float | Tensor:
        if isinstance(self.gamma, Median):
            raise ValueError("this kernel's bandwidth is not fixed yet: call kernel.resolve(views) first")
        return self.gamma

    def evaluate(self, pairs: Pairs) -> Tensor:
        distance = self.distance(pairs)
        if isinstance(pairs, SamePoints):
            return self.profile(distance.clone())
        scale = self._scale()
        derived = type(self).chain is StationaryKernel.chain
        if derived or not is_concrete():
            return self.profile(distance * -scale)
        value: Tensor = _Profile.apply(distance, scale, self)
        return value

    def extra_repr(self) -> str:
        """gamma, where it is fixed, and every number that `__init__` has set."""
        fixed = {} if isinstance(self.gamma, Median) else {"gamma": float(self.gamma)}
        numbers = {name: value for name, value in vars(self).items() if type(value) in (int, float) and name[0] != "_"}
        return ", ".join(f"{name}={value:.6g}" for name, value in (fixed | numbers).items())


class _Profile(torch.autograd.Function):
    """``profile(-gamma * distance)`` with one matrix for the value and one for the gradient."""

    @staticmethod
    def forward(ctx: Any, distance: Tensor, scale: float | Tensor, kernel: StationaryKernel) -> Tensor:
        ctx.kernel, ctx.constant = kernel, scale
        value = kernel.profile(distance * -scale)
        ctx.save_for_backward(value, *((distance, scale) if ctx.needs_input_grad[1] else ()))
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        # made of the output, which autograd knows: it can be differentiated again
        value, *scaled = ctx.saved_tensors
        slope = ctx.kernel.chain(grad, value)
        if not scaled:
            return slope.mul_(-ctx.constant), None, None
        distance, scale = scaled
        pull = -(slope * distance).sum() if torch.is_grad_enabled() else -torch.dot(slope.flatten(), distance.flatten())
        return slope * -scale, pull.reshape(scale.shape), None


def _few(view: Tensor) -> Tensor:
    """As many rows of a view as the median looks at."""
    view = at_least_float32(view, "x").detach()
    return view[..., evenly_spaced(view.shape[-2], MEDIAN_ROWS, view.device), :] if view.dim() > 1 else view
