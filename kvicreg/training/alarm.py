"""The alarm: what is going wrong, in words, and what to try."""

from __future__ import annotations

import math

from kvicreg.training.monitor import Spectrum


class NotFinite(ValueError):
    """Training met a loss that is not a number."""


def warnings(now: Spectrum, first: Spectrum | None = None, *, bounded: bool = True) -> list[str]:
    """Sentences about a spectrum; an empty list when all is well.

    Args:
        now: this epoch's measurement.
        first: that of the first epoch, to compare the scale with.
        bounded: whether the kernel has a bandwidth that can saturate (all but linear and polynomial).
    """
    sentences = []
    rank, bound = now.effective_rank, now.effective_rank_bound
    if not math.isfinite(rank) or rank < min(2.0, 0.5 * bound):
        sentences.append(
            f"collapse: effective rank {rank:.1f} of {bound:.0f}, all images look alike to the loss. "
            "Try a larger variance_weight or a smaller invariance_weight, a lower learning_rate, or milder views."
        )
    elif rank < 0.02 * bound:
        sentences.append(
            f"partial collapse: effective rank {rank:.1f} of {bound:.0f}. "
            "Try a larger variance_weight, a smaller covariance_weight or a wider batch."
        )
    scale = now.embedding_scale
    if scale < 1e-4 or (first is not None and scale < 1e-2 * first.embedding_scale):
        hidden, fixed = "", ""
        if first is not None and now.bandwidth > first.bandwidth:  # a gamma that grows as its embeddings shrink
            hidden, fixed = ", which a bandwidth that follows the batch hides from the loss", "a fixed gamma, "
        sentences.append(
            f"the embeddings shrink: their scale is {scale:.2g}{hidden}. Try {fixed}a lower learning_rate, or "
            "weight_decay 0."
        )
    elif scale > 1e4 or (first is not None and scale > 1e3 * max(first.embedding_scale, 1e-8)):
        sentences.append(
            f"the embeddings blow up: their scale is {scale:.2g}. Try a lower learning_rate, clip 1, or weight_decay."
        )
    if bounded and rank >= 2:
        gamma = "it" if math.isnan(now.bandwidth) else f"gamma {now.bandwidth:.3g}"
        if now.similarity < 0.01:
            sentences.append(
                f"the bandwidth saturates: {gamma} makes every two images unrelated (mean kernel value "
                f"{now.similarity:.2g}), so gradients vanish. Try a smaller gamma, or bandwidth mean: it follows the "
                "batch."
            )
        elif now.similarity > 0.99:
            sentences.append(
                f"the bandwidth saturates: {gamma} makes every two images the same (mean kernel value "
                f"{now.similarity:.4f}). Try a larger gamma, or bandwidth mean: it follows the batch."
            )
    return sentences
