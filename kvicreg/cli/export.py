"""kvicreg export."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def export(
    run: Path,
    /,
    format: Literal["onnx", "torch", "timm", "hf"] = "onnx",
    out: Path | None = None,
    projector: bool = False,
) -> str:
    """Write a run's encoder for ONNX, torch.export, timm or transformers, checked against it.

    Example:
        kvicreg export runs/first --format onnx --out encoder.onnx
        kvicreg export runs/photos --format timm --out my-encoder/

    Args:
        run: run folder.
        format: onnx, torch for a torch.export program, timm or hf for a folder that timm or transformers loads.
        out: file or folder to write; by default encoder.onnx, .pt2, -timm or -hf in the run folder.
        projector: include the projector (onnx and torch).
    """
    from kvicreg.evaluation.export import export as write

    written = write(run, format, out, projector=projector)
    checked = f"at most {written.error:.0e} from the encoder's own output"
    if format in ("timm", "hf"):
        name = f"local-dir:{written.path}" if format == "timm" else str(written.path)
        call = "timm.create_model({!r}, pretrained=True)" if format == "timm" else "AutoModel.from_pretrained({!r})"
        return f"{written.path}: load it with {call.format(name)}; {checked}"
    return f"{written.path}: takes float images in [0, 1], any batch size; {checked}"
