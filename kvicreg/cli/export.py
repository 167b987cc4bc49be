"""kvicreg export."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def export(
    run: Path, /, format: Literal["onnx", "torch"] = "onnx", out: Path | None = None, projector: bool = False
) -> str:
    """Write a run's encoder as ONNX or as a torch.export program, checked against it.

    Example:
        kvicreg export runs/first --format onnx --out encoder.onnx

    Args:
        run: run folder.
        format: onnx, or torch for a torch.export program.
        out: file to write; by default encoder.onnx or encoder.pt2 in the run folder.
        projector: include the projector.
    """
    from kvicreg.evaluation.export import export as write

    written = write(run, format, out, projector=projector)
    checked = f"at most {written.error:.0e} from the encoder's own output"
    return f"{written.path}: takes float images in [0, 1], any batch size; {checked}"
