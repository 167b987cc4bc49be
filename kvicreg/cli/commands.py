"""The commands by name. To add one, write a typed function in a module of its own and name it here.

A command returns its last line: what it wrote. tyro turns its signature into flags (parameters before "/" are
positional) and its docstring into help; one whose flags are settings takes the words themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

__all__ = ["COMMANDS", "load", "summary"]

# name -> (module and function, whether it parses the words itself, summary); a name of two words is a subcommand
COMMANDS: dict[str, tuple[str, bool, str]] = {
    "demo": ("demo:demo", False, "Pretrain on the embedded images; compare with raw pixels and an untrained encoder."),
    "train": ("train:train", True, "Pretrain an encoder without labels, and leave a run folder."),
    "replay": ("replay:replay", False, "Repeat the batch that stopped a training, and tell where it went wrong."),
    "select": ("select:select", True, "Choose a kernel and weights without labels."),
    "embed": ("embed:embed", False, "Embed images with a trained encoder, to npz, parquet or csv."),
    "evaluate": ("evaluate:evaluate", False, "Measure what runs have learnt: probes, controls, robustness."),
    "report": ("report:report", False, "Write one self-contained page about one run or several."),
    "export": ("export:export", False, "Write a run's encoder for ONNX, torch.export, timm or transformers."),
    "push": ("hub:push", False, "Put a run's encoder on Hugging Face's hub."),
    "pull": ("hub:pull", False, "Fetch an encoder from Hugging Face's hub into a folder."),
    "explore": ("explore:explore", False, "See, search, clean and label images on a page in the browser."),
    "search": ("images:search", False, "Find the images most like an image, or like some examples and unlike others."),
    "duplicates": (
        "images:duplicates",
        False,
        "List near duplicates as groups, or images that another source has too.",
    ),
    "outliers": ("images:outliers", False, "List the images that are least like any others."),
    "coreset": ("images:coreset", False, "List a diverse subset of a source."),
    "problems": ("images:problems", False, "List files that are unreadable, tiny, blank, blurred or copies."),
    "collect": ("images:collect", False, "Copy or link the files that a list names into a folder."),
    "data list": ("data:data_list", False, "List the data sets known by name."),
    "data get": ("data:data_get", False, "Fetch a data set, verify it and unpack it."),
    "data show": ("data:data_show", True, "Draw images beside their two views, to see what the network sees."),
    "data pack": ("data:data_pack", True, "Write images as shards, tar files with an index."),
    "bench loss": ("bench:bench_loss", False, "Time the loss, and its memory, beside other implementations of VICReg."),
    "bench views": ("bench:bench_views", False, "Time the random views beside kornia's."),
    "bench data": ("bench:bench_data", False, "Read a million images from shards, beside a folder."),
    "bench train": ("bench:bench_train", False, "Time a training step beside the network alone."),
}


def summary(name: str) -> str:
    return COMMANDS[name][2]


def load(name: str) -> tuple[Callable[..., str | None], bool]:
    """The function of a command, and whether it parses the words itself."""
    place, parses_itself, _ = COMMANDS[name]
    module, function = place.split(":")
    return getattr(import_module(f"kvicreg.cli.{module}"), function), parses_itself
