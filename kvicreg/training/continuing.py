"""What may change when a run goes on, and what may not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvicreg.runs import RunFolder, Settings
from kvicreg.storage import counted

if TYPE_CHECKING:
    from kvicreg.training.module import SelfSupervised

__all__ = ["MAY_CHANGE", "check_given", "continued", "go_on"]

MAY_CHANGE = (
    "epochs", "max_steps", "time_limit", "log_every", "checkpoint_steps", "checkpoint_minutes", "probe_every",
    "logger", "workers", "cache_mb", "cache_folder", "data_root", "accelerator", "devices", "nodes",
    "strategy", "timeout_minutes",
)  # fmt: skip
"""How long a run takes, what is noted on the way, and the machines it runs on."""
REASONS = {
    "batch_size": "the place in an epoch is counted in batches",
    "accumulate": "the place in an epoch is counted in steps",
    "seed": "the order of the images and their views follow from it",
    "precision": "the weights are saved in it",
    "out": "a run goes on where it is",
    "init": "the run has weights of its own",
    "config": "the run has a config of its own",
    "overwrite": "it would delete what is to go on",
    "dry_run": "the run is under way",
    "time": "the run has its epochs; --epochs makes it longer, and --time-limit stops it in between",
}


def continued(run: RunFolder, changes: Mapping[str, Any]) -> Settings:
    """The settings of a run that goes on with these changes; a ValueError names the first that can't be made."""
    settings = run.settings.replace(out=str(run.path))
    flat = settings.flat()
    changes = {name: value for name, value in changes.items() if name not in flat or value != flat[name]}
    for name in changes:
        if name not in MAY_CHANGE:
            reason = REASONS.get(name, "the weights so far have been trained with it as it was")
            raise ValueError(
                f"{name} can't change when a run goes on (--resume): {reason}. What can: {', '.join(MAY_CHANGE)}. "
                f"A new run can start from this one's encoder: --init {run.path}"
            )
    return settings.replace(**changes)


def check_given(before: Settings, now: Settings) -> None:
    """Refuse to go on with images or an encoder from Python that are not those of the run."""
    for name, one, other in (
        ("data", before.data.source, now.data.source),
        ("encoder", before.model.encoder.choice, now.model.encoder.choice),
    ):
        if one != other:
            raise ValueError(
                f"{name}: this run was trained with {name} {one}, not {other}; it goes on with the same alone"
            )


def go_on(run: RunFolder, module: SelfSupervised) -> list[str]:
    """Make the changes of a run that goes on, which this process holds; sentences on them and on where it goes on."""
    from kvicreg.training.checkpoint import AtomicCheckpointIO

    schedule, per_epoch, last = module.settings.schedule, module.batches_per_epoch, run.checkpoint("last")
    saved = AtomicCheckpointIO().load_checkpoint(last) if last.is_file() else {"batches_done": 0, "global_step": 0}
    epoch, batch = divmod(int(saved["batches_done"]), per_epoch)
    if schedule.total_epochs < epoch + (batch > 0):
        done = f"{epoch + (batch > 0)} that are done or begun in {run.path}"
        raise ValueError(f"epochs {schedule.total_epochs} is less than the {done}")
    lines = _change(run, module.settings)
    if not last.is_file():
        lines.append(f"{run.path} has no checkpoint yet: it starts from the beginning.")
    elif epoch == schedule.total_epochs or saved["global_step"] >= (schedule.max_steps or math.inf):
        lines.append(f"{run.path} is finished; --epochs or --max-steps makes it longer.")
    else:
        lines.append(f"Goes on at epoch {epoch + 1}, batch {batch + 1} of {per_epoch}.")
    return lines


def _change(run: RunFolder, settings: Settings) -> list[str]:
    """Write down what is changed; a sentence on each."""
    before, now = run.settings.flat(), settings.flat()
    lines = {name: f"{name} is {now[name]} now, and was {before[name]}" for name in MAY_CHANGE}
    lines = {name: line for name, line in lines.items() if now[name] != before[name]}
    if "epochs" in lines:
        lines["epochs"] += (
            ": the learning rate follows the new length from here on. Resuming is exact from here on too, but this is "
            f"not the run that {counted(now['epochs'], 'epoch')} from the start would be"
        )
    if "epochs" in lines or "max_steps" in lines:
        run.remove_encoder()  # it would be an earlier one than the config says; the last checkpoint has its weights
    if lines:
        run.write_settings(settings)
    return [f"{line}." for line in lines.values()]
