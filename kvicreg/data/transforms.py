"""The parts of a view, each a function of a batch and of one parameter per sample.

Coordinates are those of `grid_sample` with align_corners=False: the image spans [-1, 1] in x (right) and y (down).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as Pillow's conversion to "L"
_AT_ONCE = 1 << 24  # values of images that are read at a time
_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


def crop_boxes(area: Tensor, ratio: Tensor, x: Tensor, y: Tensor, max_ratio: float) -> Tensor:
    """Boxes (b, 4) = centre x, centre y, half width, half height, wholly inside the image.

    `area` is the kept part of the image, the other three lie in [-1, 1]. The aspect ratio is log-uniform on what
    [1 / max_ratio, max_ratio] leaves of the ratios that fit, [area, 1 / area]: the area is always as asked.
    """
    bound = (-area.log()).clamp_(max=math.log(max_ratio))
    stretch = torch.exp(0.5 * ratio * bound)
    side = area.sqrt()
    half_w, half_h = (side * stretch).clamp_(max=1), (side / stretch).clamp_(max=1)
    return torch.stack((x * (1 - half_w), y * (1 - half_h), half_w, half_h), 1)


def affine_maps(angle: Tensor, shear: Tensor, scale: Tensor, shift_x: Tensor, shift_y: Tensor) -> Tensor:
    """Where each output point comes from, (b, 2, 3): the inverse of shift . rotation . shear . scale.

    Angles are in radians, a positive one turns the picture clockwise; shifts are parts of the side.
    """
    cos, sin, tan = angle.cos(), angle.sin(), shear.tan()
    linear = torch.stack((cos + tan * sin, sin - tan * cos, -sin, cos), 1).view(-1, 2, 2) / scale[:, None, None]
    shift = 2 * torch.stack((shift_x, shift_y), 1)
    # forward: y = R S z x + t with S = [[1, tan], [0, 1]]; hence x = S^-1 R^T (y - t) / z
    return torch.cat((linear, -linear @ shift[:, :, None]), 2)


def crop_maps(boxes: Tensor, flip: Tensor) -> Tensor:
    """Maps (b, 2, 3) of the output square onto `boxes`, mirrored where `flip` (b,) is true."""
    zero = torch.zeros_like(flip, dtype=boxes.dtype)
    x, y, half_w, half_h = boxes.unbind(1)
    half_w = torch.where(flip, -half_w, half_w)
    return torch.stack((half_w, zero, x, zero, half_h, y), 1).view(-1, 2, 3)


def compose(outer: Tensor, inner: Tensor) -> Tensor:
    """The map x -> outer(inner(x)), both (b, 2, 3)."""
    linear, shift = outer[:, :, :2], outer[:, :, 2:]
    product = linear @ inner
    product[:, :, 2:] += shift
    return product


def sample(images: Tensor, maps: Tensor, size: int, padding: str, bend: Tensor | None = None) -> Tensor:
    """Bilinear images (b, c, size, size), float32, read at `maps` (b, 2, 3) from images of uint8 or float32.

    Args:
        bend: shifts (b, 2, k, k) at a lattice of points over the result, smooth in between; 2 is a side of the image.
    """
    part = max(1, _AT_ONCE // max(1, images[0].numel())) if len(images) else 1
    if len(images) > part:  # large ones: as floats they would take more room than what is read from them
        out = images.new_empty(len(images), images.shape[1], size, size, dtype=torch.float32)
        for start in range(0, len(images), part):
            rows = slice(start, start + part)
            out[rows] = sample(images[rows], maps[rows], size, padding, None if bend is None else bend[rows])
        return out
    images = images.float()
    # the grid is built by broadcasting: affine_grid's product with 3-vectors is several times slower on a CPU
    axis = (torch.arange(size, device=images.device, dtype=images.dtype) * 2 + 1) / size - 1
    grid = images.new_empty(len(images), size, size, 2)
    along_x = maps[:, :, 0, None] * axis + maps[:, :, 2, None]  # (b, 2, size)
    along_y = maps[:, :, 1, None] * axis
    torch.add(along_x[:, 0, None, :], along_y[:, 0, :, None], out=grid[..., 0])
    torch.add(along_x[:, 1, None, :], along_y[:, 1, :, None], out=grid[..., 1])
    if bend is not None:
        shifts = torch.nn.functional.interpolate(bend, (size, size), mode="bicubic", align_corners=False)
        grid += shifts.permute(0, 2, 3, 1)
    return torch.nn.functional.grid_sample(images, grid, padding_mode=padding, align_corners=False)


def _colour_basis() -> tuple[tuple[tuple[float, ...], ...], ...]:
    """The three 3 x 3 matrices that keep luma, keep chroma, and turn chroma by a quarter of the colour circle."""
    forward = torch.tensor(_YIQ, dtype=torch.float64)
    forward[1:] -= forward[1:].mean(1, keepdim=True)  # rounding of the published digits: grey has no chroma
    back = torch.linalg.inv(forward)
    luma = back[:, :1] @ forward[:1]
    turn = back[:, 1:2] @ forward[2:] - back[:, 2:] @ forward[1:2]  # from red by way of yellow to green
    return tuple(tuple(map(tuple, part.tolist())) for part in (luma, torch.eye(3).double() - luma, turn))


@functools.cache
def constant(values: tuple[object, ...], device: torch.device) -> Tensor:
    """`values` as a float32 tensor on `device`, made once."""
    return torch.tensor(values, device=device, dtype=torch.float32)


_BASIS = _colour_basis()


def colour_matrices(brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor) -> tuple[Tensor, Tensor]:
    """Colour jitter as one affine map per sample: rgb -> M rgb + k * (mean luma of the image).

        M = b c (1 w^T + s R(2 pi h)),    k = b (1 - c)

    w are the luma weights and R turns the chroma plane of YIQ, which keeps luma: on the values before clamping the
    four operations commute, so there is no order to draw. Returns M (b, 3, 3) and k (b,).
    """
    angle = 2 * math.pi * hue
    parts = torch.stack((torch.ones_like(hue), saturation * angle.cos(), saturation * angle.sin()), 1)
    basis = constant(_BASIS, hue.device).view(3, 9)
    matrices = (parts * (brightness * contrast)[:, None]) @ basis
    return matrices.view(-1, 3, 3), brightness * (1 - contrast)


def blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur of images (b, c, s, s) with one sigma (b,) per sample, as two products with an (s, s) matrix.

    Rows of the matrix are Gaussian weights normalised to one, so a border pixel averages the pixels that exist.
    """
    b, c, s, _ = images.shape
    offset = torch.arange(1 - s, s, device=images.device, dtype=images.dtype)
    exponent = -(offset**2) / (2 * sigma[:, None] ** 2)
    # weights[i, j] = g[j - i]; below -60 the weight counts for nothing, and its subnormal product would be slow
    weights = exponent.clamp_(min=-60).exp_().unfold(1, s, 1).flip(1)
    weights /= weights.sum(2, keepdim=True)
    rows = torch.bmm(images.reshape(b, c * s, s), weights.transpose(1, 2)).view(b * c, s, s)
    return torch.bmm(weights[:, None].expand(b, c, s, s).reshape(b * c, s, s), rows).view(b, c, s, s)


def solarize(values: Tensor, middle: Tensor) -> Tensor:
    """Values above `middle` mirrored at it: m - |x - m|."""
    return middle - (values - middle).abs_()


def on_chosen(images: Tensor, chosen: Tensor, change: Callable[..., Tensor], *parameters: Tensor) -> Tensor:
    """`change(images, *parameters)` where `chosen` (b,) is true, `images` elsewhere.

    On the host only the chosen rows are computed; on a device picking them out would make the host wait for it.
    """
    if images.device.type != "cpu":
        return torch.where(chosen[:, None, None, None], change(images, *parameters), images)
    rows = chosen.nonzero().squeeze(1)
    return images.index_copy_(0, rows, change(images[rows], *(parameter[rows] for parameter in parameters)))


def visible(images: Tensor) -> Tensor:
    """Images (..., c, h, w) with values from 0 to 255 as uint8 in grey or colour, to be looked at.

    Of more than three channels the first three are red, green and blue; of two, blue is black.
    """
    channels = images.shape[-3]
    if channels not in (1, 3):
        images = images[..., :3, :, :]
    if channels == 2:
        images = torch.cat((images, torch.zeros_like(images[..., :1, :, :])), -3)
    return images.round().to(torch.uint8) if images.is_floating_point() else images
