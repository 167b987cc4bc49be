"""kvicreg train."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kvicreg.cli.errors import is_first_process, usage_errors
from kvicreg.cli.flags import help_page, parse_flags, value_of
from kvicreg.cli.process import import_lightning
from kvicreg.options import Options, option
from kvicreg.runs import RunFolder, Settings
from kvicreg.runs.config import dump_settings, load_settings
from kvicreg.runs.durations import minutes
from kvicreg.storage import quoted

__all__ = ["train"]

COMMON = (
    "data", "image_size", "views", "method", "kernel", "encoder", "init", "time", "epochs", "batch_size",
    "optimizer", "learning_rate", "seed", "devices", "out", "config", "resume", "overwrite", "dry_run",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StartOptions(Options):
    """How a run begins."""

    config: str | None = option(None, "Recipe to start from: a shipped one by name, or a YAML file; flags change it.")
    resume: str | None = option(
        None, "Run folder to continue from its last checkpoint, exactly; with --epochs, longer than it was to be."
    )
    overwrite: bool = option(False, "Replace the run folder if it exists.")
    dry_run: bool = option(False, "Print the resolved settings, the time and the memory, from small steps, and stop.")
    time: str | None = option(
        None,
        "Train for about this long, such as 30m: fits the epochs. Without --epochs 15m, on a GPU 1h.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.time is not None:
            minutes(self.time)


@dataclass(frozen=True, kw_only=True)
class TrainOptions(Options):
    """The flags of `kvicreg train`."""

    run: Settings = field(default_factory=Settings)
    start: StartOptions = field(default_factory=StartOptions)


def train(argv: list[str]) -> str:
    """Pretrain an encoder without labels, and leave a run folder.

    Examples:
        kvicreg train --data photos/
        kvicreg train --data photos/ --encoder resnet18 --image-size 64 --time 30m --out runs/photos
        kvicreg train --config paper-cifar10-rq --epochs 100
        kvicreg train --resume runs/first --epochs 50
    """
    if "--help" in argv or "-h" in argv:
        return help_page("train", train.__doc__ or "", TrainOptions, argv, COMMON)
    recipe, resumed = value_of("config", argv), value_of("resume", argv)
    if resumed is not None:
        base = RunFolder.open(resumed).settings
    else:
        base = Settings() if recipe is None else load_settings(recipe)
    given = parse_flags(TrainOptions, argv, base.given())
    with usage_errors():
        start = StartOptions(**{name: given.pop(name) for name in StartOptions().flat() if name in given})
        settings = base.replace(**given) if start.resume is None else _continued(start, given)
    if start.dry_run:
        from kvicreg.training.build import resolve
        from kvicreg.training.plan import plan

        planned = plan(settings, time=start.time)
        print(dump_settings(resolve(planned.settings, planned.data, planned.views)), end="")
        return " ".join([*planned.lines, "Nothing was written."])
    if is_first_process():
        print("Starting PyTorch and Lightning ...", flush=True)
    import_lightning()
    from kvicreg.training.run import train as run

    folder: Path = run(settings, time=start.time, resume=start.resume is not None, overwrite=start.overwrite)
    if not RunFolder(folder).is_finished:
        return f"Run folder: {folder} (metrics, checkpoints). Next: kvicreg train --resume {quoted(folder)}"
    return f"Run folder: {folder} (encoder, metrics, checkpoints). Next: kvicreg evaluate {quoted(folder)}"


def _continued(start: StartOptions, given: dict[str, object]) -> Settings:
    from kvicreg.training.continuing import continued

    run = RunFolder.open(start.resume or "")
    others = {name: value for name, value in start.given().items() if name != "resume"}
    return continued(run, {**others, **given})
