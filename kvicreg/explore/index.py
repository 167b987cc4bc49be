"""Nearest rows by cosine: exact for fewer than 50,000 of them, by usearch's graph for more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kvicreg.storage import replacing

__all__ = ["EXACT_BELOW", "Index", "exact_search"]

EXACT_BELOW = 50_000
_SIMILARITIES = 2**25  # at a time: 128 MB
_BUILT_AT_A_TIME = 4096


def exact_search(rows: Tensor, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Indices and cosines (m, count) of the rows nearest to each query, nearest first; all of unit length."""
    count = min(count, len(rows))
    parts = [(chunk @ rows.T).topk(count, dim=1) for chunk in queries.split(max(1, _SIMILARITIES // len(rows)))]
    return torch.cat([part.indices for part in parts]), torch.cat([part.values for part in parts])


class Index:
    """Rows of unit length that can be searched. A graph is built once and stored.

    Args:
        rows: float32 (n, q), of unit length.
        folder: where a graph is stored; None for one in memory.
        exact_below: fewer rows than this are compared one by one.
        progress: is called with the number of rows in the graph, and of all.

    Example:
        >>> indices, cosines = Index(torch.eye(3)).search(torch.tensor([[0.0, 1.0, 0.0]]), 1)
        >>> indices.item(), cosines.item()
        (1, 1.0)
    """

    def __init__(
        self,
        rows: Tensor,
        folder: Path | None = None,
        *,
        exact_below: int = EXACT_BELOW,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        if rows.ndim != 2 or len(rows) == 0:
            raise ValueError(f"rows must have shape (n, q) with n >= 1, got {tuple(rows.shape)}")
        self.rows = rows
        self.graph = None if len(rows) < exact_below else _graph(rows, folder, progress)

    def search(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Indices and cosines (m, count) of the rows nearest to each query (m, q), nearest first."""
        if self.graph is None:
            return exact_search(self.rows, queries, count)
        matches = self.graph.search(queries.numpy(), min(count, len(self.rows)), threads=torch.get_num_threads())
        indices = torch.from_numpy(np.atleast_2d(matches.keys).astype(np.int64))
        cosines = torch.from_numpy(1 - np.atleast_2d(matches.distances).astype(np.float32))
        return indices, cosines

    def recall(self, count: int = 10, *, queries: int = 200, seed: int = 0) -> float:
        """The share of the truly nearest rows that a search gives, over some rows as queries."""
        chosen = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(seed))[:queries]
        exact, _ = exact_search(self.rows, self.rows[chosen], count)
        given, _ = self.search(self.rows[chosen], count)
        shared = (exact[:, :, None] == given[:, None, :]).any(2)
        return float(shared.float().mean())


def _graph(rows: Tensor, folder: Path | None, progress: Callable[[int, int], None] | None) -> Any:
    """usearch's graph of the rows, from the folder where it is there."""
    try:
        from usearch.index import Index as Graph
    except ImportError as error:
        raise ImportError(
            f"searching {len(rows):,} images needs usearch: pip install 'kvicreg[explore]'; "
            f"below {EXACT_BELOW:,} nothing is needed"
        ) from error
    path = None if folder is None else folder / "graph.usearch"
    graph = Graph(
        ndim=rows.shape[1], metric="cos", dtype="f16", connectivity=32, expansion_add=128, expansion_search=128
    )
    if path is not None and path.is_file():
        try:
            graph.load(str(path))
            if len(graph) == len(rows):
                return graph
        except Exception:  # damaged from outside: it is built again
            pass
        graph.reset()
    for start in range(0, len(rows), _BUILT_AT_A_TIME):
        part = rows[start : start + _BUILT_AT_A_TIME]
        graph.add(np.arange(start, start + len(part)), part.numpy(), threads=torch.get_num_threads())
        if progress is not None:
            progress(start + len(part), len(rows))
    if path is not None:
        with replacing(path) as temporary:
            graph.save(str(temporary))
    return graph
