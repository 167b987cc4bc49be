"""Encoders on Hugging Face's hub: push a run's, pull it again, and load it as any run's."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from kvicreg.models.weights import one_line
from kvicreg.runs.folder import RunFolder
from kvicreg.runs.stored import DESCRIPTION, PROJECTOR, WEIGHTS, StoredEncoder
from kvicreg.storage import quoted, without_home

__all__ = ["pull", "push"]


def push(run: str | Path, name: str, *, private: bool = True, api: Any = None) -> str:
    """Put the encoder of a finished run on the hub, with what `load_encoder` needs; returns where it is.

    What goes there is the encoder, its projector, their description, the run's settings without home folders, and a
    card. Images do not.

    Args:
        run: the run folder.
        name: USER/NAME on the hub.
        private: for yourself alone.
        api: in place of `huggingface_hub.HfApi()`, which knows the account of this machine.
    """
    folder = RunFolder.open(run)
    if not folder.is_finished:
        raise ValueError(f"{run} has not finished: kvicreg train --resume {quoted(run)}")
    api = _client().HfApi() if api is None else api
    with tempfile.TemporaryDirectory() as temporary:
        for part in (WEIGHTS, PROJECTOR):
            if (folder.path / part).is_file():
                (Path(temporary) / part).write_bytes((folder.path / part).read_bytes())
        description = without_home(folder.description)
        (Path(temporary) / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n")
        (Path(temporary) / folder.config.name).write_text(without_home(folder.config.read_text()))
        (Path(temporary) / "README.md").write_text(_card(name, description))
        try:
            api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=temporary, commit_message="An encoder of kvicreg")
        except Exception as error:  # the client's own, of many kinds: no account, no right, no network
            raise OSError(f"{name} could not be written on the hub: {one_line(error)}") from error
    return f"https://huggingface.co/{name}"


def pull(name: str, out: str | Path, *, revision: str | None = None) -> Path:
    """Fetch an encoder from the hub into a folder that `load_encoder` and the commands take; returns the folder."""
    out = Path(out)
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"out: {out} is not empty; name a new folder")
    parts = [DESCRIPTION, WEIGHTS, PROJECTOR, RunFolder(out).config.name]
    try:
        _client().snapshot_download(name, revision=revision, allow_patterns=parts, local_dir=out)
    except ImportError:
        raise
    except Exception as error:  # the client's own, of many kinds
        raise OSError(f"{name} could not be fetched from the hub: {one_line(error)}") from error
    StoredEncoder(out).description()
    return out


def _client() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError("the hub needs the package huggingface_hub: pip install 'kvicreg[backbones]'") from error
    return huggingface_hub


def _card(name: str, description: dict[str, Any]) -> str:
    architecture = description["architecture"]["name"]
    return f"""---
library_name: kvicreg
pipeline_tag: image-feature-extraction
tags: [kvicreg, self-supervised-learning]
---

# {name}

An image encoder, pretrained without labels: {architecture}, images of {description["image_size"]} pixels to
{description["feature_dim"]} features; trained on {description["data"] or "images of somebody's own"}.

```python
from kvicreg import load_encoder
from kvicreg.runs.hub import pull

encoder = load_encoder(pull("{name}", "encoder"))
features = encoder(encoder.preprocess(uint8_images))
```
"""
