"""kvicreg select."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kvicreg.cli.errors import UsageError, usage_errors
from kvicreg.cli.flags import help_page, parse_flags
from kvicreg.cli.process import import_lightning
from kvicreg.options import Options, option
from kvicreg.runs import Settings
from kvicreg.selection.options import SelectOptions
from kvicreg.storage import quoted

__all__ = ["select"]

COMMON = (
    "budget", "time", "candidates", "criterion", "full", "data", "image_size", "encoder", "epochs", "batch_size",
    "learning_rate", "seed", "out", "resume",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions(SelectOptions):
    """How to choose, or which choice to go on with."""

    resume: str | None = option(None, "Study folder to continue or to join; takes no other flag.")


@dataclass(frozen=True, kw_only=True)
class SelectFlags(Options):
    """The flags of `kvicreg select`."""

    choosing: ChoiceOptions = field(default_factory=ChoiceOptions)
    run: Settings = field(default_factory=Settings)


def select(argv: list[str]) -> str:
    """Choose a kernel and weights without labels: train candidates a little, drop the poor ones, finish the best.

    Takes every flag of kvicreg train that candidates do not choose; it holds for all of them. Any number of processes
    may work on one study: start it once, and join it with --resume from wherever its folder is seen.

    Examples:
        kvicreg select --data photos/ --budget 2000steps --out runs/choice
        kvicreg select --data mnist --time 30m --candidates rbf linear laplacian rbf+linear --out runs/choice
        kvicreg select --resume runs/choice
    """
    if "--help" in argv or "-h" in argv:
        return help_page("select", select.__doc__ or "", SelectFlags, argv, COMMON)
    given = parse_flags(SelectFlags, argv)
    import_lightning()
    from kvicreg.selection import select as studies

    if "resume" in given:
        if len(given) > 1:
            raise UsageError("--resume continues a study as it was and takes no other flag")
        study, ranking = studies.resume(Path(given["resume"]))
    else:
        settings, options = _read(given)
        out = settings.record.out or f"runs/{settings.data.short_name}-select"
        study, ranking = studies.select(Path(out), settings, options)
    print("\n".join([*studies.ranking_lines(ranking), *ranking["advice"]]))
    if ranking["winner"] is None:
        raise ValueError(f"no candidate could be trained; their errors are in {study.ranking_path}")
    winner = study.settings_of(ranking["winner"]).folder
    after = f"kvicreg {'report' if study.full else 'train --resume'} {quoted(winner)}"
    return f"Ranking: {study.ranking_path}, the winner's run: {winner}. Next: {after}"


def _read(given: dict[str, object]) -> tuple[Settings, SelectOptions]:
    from kvicreg.selection.candidates import shared_settings

    names = SelectOptions().flat()
    with usage_errors():
        options = SelectOptions.of(**{name: value for name, value in given.items() if name in names})
        shared = {name: value for name, value in given.items() if name not in names}
        return shared_settings(shared, options.candidates), options
