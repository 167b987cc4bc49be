"""The command line: one thin function per command, imported lazily so that `kvicreg --help` is immediate.

A command is a typed function (tyro turns its signature into flags, its docstring into help) that returns its
last line: what it wrote. To add one, write the function (parameters before "/" are positional) and name it in
COMMANDS.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Set KVICREG_DEBUG=1 to see tracebacks.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# --------------------------------------------------------------------------- the commands


def demo(out: Path = Path("runs/demo"), seed: int = 0) -> str:
    """Pretrain on the embedded images; compare with raw pixels and an untrained encoder.

    Example:
        kvicreg demo

    Args:
        out: run folder to write; a former demo there is replaced.
        seed: seed of the weights, the data order and the views.
    """
    from kvicreg.training.demo import run

    return str(run(out=out, seed=seed))


# name -> function; a name of two words is a subcommand ("data list")
COMMANDS: dict[str, Callable[..., str | None]] = {
    "demo": demo,
}

# --------------------------------------------------------------------------- parsing and errors


class UsageError(ValueError):
    """The command line can't be understood: exit code 2."""


def summary(command: Callable[..., str | None]) -> str:
    return (command.__doc__ or "").strip().splitlines()[0]


def overview(prefix: str = "") -> str:
    """The help page of `kvicreg`, or of a group of commands such as `data`."""
    names = [name for name in COMMANDS if name.startswith(f"{prefix} ".lstrip())]
    lines = [f"  {name:<14} {summary(COMMANDS[name])}" for name in names]
    example = f"kvicreg {names[0]} --help" if prefix else "kvicreg train --data mnist --kernel laplacian"
    return "\n".join(
        [
            f"usage: kvicreg {prefix + ' ' if prefix else ''}COMMAND [OPTIONS]",
            "",
            "Kernel VICReg: self-supervised learning in a reproducing kernel Hilbert space.",
            "",
            *lines,
            "",
            "Every command has --help with an example; kvicreg --version tells the version.",
            f"Example: {example}",
        ]
    )


def find(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Split the command line into a command's name and its arguments."""
    for words in (1, 2):
        name = " ".join(argv[:words])
        if name in COMMANDS:
            return name, list(argv[words:])
    groups = {name.split()[0] for name in COMMANDS if " " in name}
    if argv[0] in groups:
        known = [name.split()[1] for name in COMMANDS if name.startswith(f"{argv[0]} ")]
        said, where = (argv[1] if len(argv) > 1 else ""), f"kvicreg {argv[0]}"
    else:
        known, said, where = sorted(groups | set(COMMANDS)), argv[0], "kvicreg"
    near = difflib.get_close_matches(said, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
    raise UsageError(f"{where}: no command {said!r}; {hint}")


def parse_and_call(name: str, argv: list[str]) -> str | None:
    """Read the flags of a command by its signature, and call it."""
    import tyro

    command = COMMANDS[name]
    description = inspect.cleandoc(command.__doc__ or "").split("\nArgs:")[0]
    return tyro.cli(
        command, prog=f"kvicreg {name}", description=description, args=argv, config=(tyro.conf.DisallowNone,)
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if argv[0] in ("--version", "-V"):
        from kvicreg import __version__

        print(f"kvicreg {__version__}")
        return 0
    if len(argv) == 2 and argv[1] in ("-h", "--help") and any(c.startswith(f"{argv[0]} ") for c in COMMANDS):
        print(overview(argv[0]))
        return 0
    name = "kvicreg"
    try:
        name, rest = find(argv)
        last_line = parse_and_call(name, rest)
        if last_line:
            print(last_line)
        return 0
    except SystemExit as stop:  # tyro has already said what is wrong, or printed the help
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (head, less) has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - held until the interpreter exits
        return 0
    except (ValueError, TypeError, OSError, ImportError) as error:
        if os.environ.get("KVICREG_DEBUG"):
            raise
        said = str(error) if str(error) else type(error).__name__
        print(said if said.startswith("kvicreg") else f"kvicreg {name}: {said}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


if __name__ == "__main__":
    sys.exit(main())
