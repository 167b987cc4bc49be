"""The encoder as a folder that timm's and transformers' own loaders read, checked by loading it there."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kvicreg.models import PretrainedEncoder
from kvicreg.models.encoder import ENCODERS
from kvicreg.models.transformers_models import TransformersEncoder
from kvicreg.models.weights import one_line
from kvicreg.options import Values
from kvicreg.storage import write_atomically

__all__ = ["export_hf", "export_timm"]

Check = Callable[[Callable[[Tensor], Tensor]], None]  # raises where the output of what was loaded differs


def export_timm(encoder: PretrainedEncoder, out: Path, check: Check) -> None:
    """Write what ``timm.create_model("local-dir:FOLDER", pretrained=True)`` reads."""
    options, model, size = _options(encoder, "timm"), encoder.module, encoder.image_size
    timm, channels = options.library(), encoder.mean.shape[1]
    arguments: dict[str, Any] = {"in_chans": channels}
    if _name(encoder).startswith("timm:"):
        arguments |= options.arguments() | ({} if options.pooling == "model" else {"global_pool": options.pooling})
    else:
        model = _as_timm(encoder, timm.create_model(options.model, num_classes=0, in_chans=channels))
    usual: Any = model.pretrained_cfg
    about = {name: usual[name] for name in ("interpolation", "first_conv", "classifier") if usual.get(name)}
    about |= {"num_classes": 0, "input_size": [channels, size, size], "crop_pct": 1.0}
    about |= {"mean": encoder.mean.flatten().tolist(), "std": encoder.std.flatten().tolist()}
    if usual.get("fixed_input_size"):
        arguments, about = arguments | {"img_size": size}, about | {"fixed_input_size": True}

    def save(folder: Path) -> Callable[[Tensor], Tensor]:
        config = {"num_classes": 0, "pretrained_cfg": about}
        timm.models.save_for_hf(model, str(folder), model_config=config, model_args=arguments, safe_serialization=True)
        return _evaluated(timm.create_model(f"local-dir:{folder}", pretrained=True))

    _write(out, save, check)


def _as_timm(encoder: PretrainedEncoder, model: nn.Module) -> nn.Module:
    """The weights of an encoder in timm's model of the same name, whose layers must be the same."""
    try:
        model.load_state_dict(encoder.module.state_dict())
    except RuntimeError as error:
        name = _name(encoder).rpartition(":")[2]
        raise ValueError(f"this encoder is not timm's {name} ({one_line(error)}): export it as onnx") from error
    return model


def export_hf(encoder: PretrainedEncoder, out: Path, check: Check) -> None:
    """Write what ``transformers.AutoModel.from_pretrained(FOLDER)`` reads, with the config of its image processor."""
    if not isinstance(encoder.encoder, TransformersEncoder):
        raise ValueError(
            f"format hf is for encoders of transformers (hf:NAME), and this is {_name(encoder)}: export it as onnx"
        )
    options, model = _options(encoder, "hf"), encoder.module
    side = {"height": encoder.image_size, "width": encoder.image_size}
    processor = {
        "image_processor_type": "ViTImageProcessor", "do_resize": True, "size": side, "do_rescale": True,
        "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": encoder.mean.flatten().tolist(),
        "image_std": encoder.std.flatten().tolist(),
    }  # fmt: skip

    def save(folder: Path) -> Callable[[Tensor], Tensor]:
        model.save_pretrained(folder)  # type: ignore[operator]
        (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=2) + "\n")
        loaded = options.library().AutoModel.from_pretrained(folder)
        return _evaluated(TransformersEncoder(loaded, options.pooling))

    _write(out, save, check)


def _options(encoder: PretrainedEncoder, library: str) -> Any:
    """The settings of an encoder as a model of a library, whichever has built it."""
    kind, _, name = _name(encoder).rpartition(":")
    architecture = encoder.description["architecture"] if kind.startswith(library) else {}
    settings = {k: v for k, v in architecture.items() if k in ("model_args", "pooling", "library_config")}
    name = _name(encoder).partition(":")[2] if library == "hf" else name
    return ENCODERS.read(f"{library}:{name}", Values(settings))


def _name(encoder: PretrainedEncoder) -> str:
    return str(encoder.description["architecture"]["name"])


def _evaluated(module: nn.Module) -> Callable[[Tensor], Tensor]:
    def features(images: Tensor) -> Tensor:
        with torch.no_grad():
            result: Tensor = module.eval()(images)
        return result

    return features


def _write(out: Path, save: Callable[[Path], Callable[[Tensor], Tensor]], check: Check) -> None:
    """Save into a folder that nobody sees, load and check it there, and then put its files into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        check(save(Path(temporary)))
        for file in sorted(Path(temporary).iterdir()):
            write_atomically(out / file.name, file.read_bytes())
