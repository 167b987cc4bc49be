"""The parts of a view, each a function of a batch and of one parameter per sample.

Coordinates are those of `grid_sample` with align_corners=False: the image spans [-1, 1] in x (right) and y
(down).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as Pillow's conversion to "L"
_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


def crop_boxes(area: Tensor, ratio: Tensor, left: Tensor, top: Tensor, max_ratio: float) -> Tensor:
    """Boxes (b, 4) = centre x, centre y, half width, half height, wholly inside the image.

    `area` is the kept part of the image, the other three are uniform in [0, 1). The aspect ratio is
    log-uniform on what [1 / max_ratio, max_ratio] leaves of the ratios that fit, [area, 1 / area]: the area
    is always as asked.
    """
    bound = (-area.log()).clamp(max=math.log(max_ratio))
    ratio = torch.exp((2 * ratio - 1) * bound)
    half_w, half_h = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    return torch.stack(((2 * left - 1) * (1 - half_w), (2 * top - 1) * (1 - half_h), half_w, half_h), 1)


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


def sample(images: Tensor, maps: Tensor, size: int, padding: str) -> Tensor:
    """Bilinear images (b, c, size, size) read at `maps` (b, 2, 3); the grid is built by broadcasting, not by
    a product.
    """
    axis = (torch.arange(size, device=images.device, dtype=images.dtype) * 2 + 1) / size - 1
    grid = images.new_empty(len(images), size, size, 2)
    along_x = maps[:, :, 0, None] * axis + maps[:, :, 2, None]  # (b, 2, size)
    along_y = maps[:, :, 1, None] * axis
    torch.add(along_x[:, 0, None, :], along_y[:, 0, :, None], out=grid[..., 0])
    torch.add(along_x[:, 1, None, :], along_y[:, 1, :, None], out=grid[..., 1])
    return torch.nn.functional.grid_sample(images, grid, padding_mode=padding, align_corners=False)


def colour_matrices(brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor) -> tuple[Tensor, Tensor]:
    """Colour jitter as one affine map per sample: rgb -> M rgb + k * (mean luma of the image).

        M = b c (1 w^T + s R(2 pi h)),    k = b (1 - c)

    w are the luma weights and R turns the chroma plane of YIQ, which keeps luma: on the values before
    clamping the four operations commute, so there is no order to draw. Returns M (b, 3, 3) and k (b,).
    """
    forward = torch.tensor(_YIQ, device=hue.device, dtype=torch.float64)
    forward[1:] -= forward[1:].mean(1, keepdim=True)  # rounding of the published digits: grey has no chroma
    back = torch.linalg.inv(forward)
    luma = back[:, :1] @ forward[:1]
    turn = back[:, 2:] @ forward[1:2] - back[:, 1:2] @ forward[2:]
    basis = torch.stack((luma, torch.eye(3, device=hue.device) - luma, turn)).to(hue.dtype)
    angle = 2 * math.pi * hue
    parts = torch.stack((torch.ones_like(hue), saturation * angle.cos(), saturation * angle.sin()), 1)
    matrices = torch.einsum("bk,kij->bij", parts * (brightness * contrast)[:, None], basis)
    return matrices, brightness * (1 - contrast)


def blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur of images (b, c, s, s) with one sigma (b,) per sample, as two products with an (s, s)
    matrix.

    Rows of the matrix are Gaussian weights normalised to one, so a border pixel averages the pixels that
    exist.
    """
    b, c, s, _ = images.shape
    place = torch.arange(s, device=images.device, dtype=images.dtype)
    weights = torch.exp(-((place[:, None] - place) ** 2) / (2 * sigma[:, None, None] ** 2))
    weights /= weights.sum(2, keepdim=True)
    rows = torch.bmm(images.reshape(b, c * s, s), weights.transpose(1, 2)).view(b * c, s, s)
    return torch.bmm(weights[:, None].expand(b, c, s, s).reshape(b * c, s, s), rows).view(b, c, s, s)
