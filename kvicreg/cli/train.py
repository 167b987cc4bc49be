"""kvicreg train."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kvicreg.cli.errors import UsageError
from kvicreg.cli.flags import help_page, parse_flags, value_of
from kvicreg.options import Options, option
from kvicreg.runs import RunFolder, Settings
from kvicreg.runs.config import dump_settings, load_settings

__all__ = ["train"]

COMMON = (
    "data", "image_size", "views", "method", "kernel", "encoder", "init", "epochs", "batch_size", "optimizer",
    "learning_rate", "seed", "precision", "devices", "out", "config", "resume", "overwrite", "dry_run",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StartOptions(Options):
    """How a run begins."""

    config: str | None = option(None, "Recipe to start from: a shipped one by name, or a YAML file; flags change it.")
    resume: str | None = option(None, "Run folder to continue from its last checkpoint, exactly; takes no other flag.")
    overwrite: bool = option(False, "Replace the run folder if it exists.")
    dry_run: bool = option(False, "Print the resolved settings and an estimate of time and memory, and stop.")


@dataclass(frozen=True, kw_only=True)
class TrainOptions(Options):
    """The flags of `kvicreg train`."""

    run: Settings = field(default_factory=Settings)
    start: StartOptions = field(default_factory=StartOptions)


def train(argv: list[str]) -> str:
    """Pretrain an encoder without labels, and leave a run folder.

    Examples:
        kvicreg train --data mnist --kernel laplacian --epochs 20 --out runs/first
        kvicreg train --data photos/ --encoder resnet18 --image-size 64 --out runs/photos
        kvicreg train --config paper-cifar10-rq --epochs 100
        kvicreg train --resume runs/first
    """
    if "--help" in argv or "-h" in argv:
        return help_page("train", train.__doc__ or "", TrainOptions, argv, COMMON)
    recipe = value_of("config", argv)
    base = Settings() if recipe is None else load_settings(recipe)
    given = parse_flags(TrainOptions, argv, base.given())
    start = StartOptions(
        **{name: given.pop(name) for name in ("config", "resume", "overwrite", "dry_run") if name in given}
    )
    if start.resume is not None:
        if given or start.config or start.overwrite or start.dry_run:
            raise UsageError(
                "--resume continues a run as it was and takes no other flag; a new run can start from it: --init"
            )
        settings = RunFolder.open(start.resume).settings.replace(out=start.resume)
    else:
        settings = _changed(base, given)
    if start.dry_run:
        from kvicreg.training.estimate import estimate

        settings, cost = estimate(settings)
        print(dump_settings(settings), end="")
        return f"{cost} Nothing was written."
    from kvicreg.training.run import train as run

    folder: Path = run(settings, resume=start.resume is not None, overwrite=start.overwrite)
    return f"Run folder: {folder} (encoder, metrics, checkpoints). Next: kvicreg evaluate {folder}"


def _changed(base: Settings, given: dict[str, object]) -> Settings:
    try:
        return base.replace(**given)
    except ValueError as error:
        raise UsageError(str(error)) from error
