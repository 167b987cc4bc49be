"""Who belongs to which group: the parts of a batch in which variance and covariance are asked for once more.

The variance of a batch is that of its majority: a group of a few images can collapse to a point without the spectrum
of the whole batch telling. So the terms are also measured within each group, and every group counts the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvicreg.operators.shard import Shard

__all__ = ["group_views"]


def group_views(views: Sequence[Tensor], groups: Tensor, *, gather: bool) -> list[list[Tensor]]:
    """The views ``(n_g, p)`` of each group of the (global) batch that has at least two members in it.

    Args:
        views: ``(b, p)`` each.
        groups: whole numbers ``(b,)``, the group of each row.
        gather: groups of the global batch; every process then holds the rows of all.
    """
    if not isinstance(groups, Tensor):
        groups = torch.as_tensor(groups)
    if groups.is_floating_point() or groups.shape != views[0].shape[:1]:
        raise ValueError(
            f"groups must hold a whole number for each of the {len(views[0])} rows, "
            f"got {groups.dtype} of shape {tuple(groups.shape)}"
        )
    shard = Shard.of(views[0], gather=gather)
    if shard.world > 1:
        views = shard.gather(torch.stack(list(views))).unbind()
        groups = shard.gather(groups.to(views[0].device).long().unsqueeze(-1)).squeeze(-1)
    names = groups.cpu()  # how many there are decides what is computed, so the host has to know
    members = [(names == name).nonzero().squeeze(1) for name in names.unique()]
    return [[view[rows.to(view.device)] for view in views] for rows in members if len(rows) >= 2]
