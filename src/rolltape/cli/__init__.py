"""The command line: one file a command, each loaded only when it is called.

Exit codes: 0 fine (warnings too), 1 findings of severity error or a failed run, 2 a command line that makes no sense.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["COMMANDS", "build_app", "main"]

COMMANDS: dict[str, tuple[str, str]] = {
    "record": ("rolltape.cli.record:record", "Record episodes with a robot or a simulated scene."),
    "info": ("rolltape.cli.info:info", "Say what a dataset holds: episodes, features, cameras, tasks, sizes."),
    "check": ("rolltape.cli.check:check", "Look for faults in a dataset. Nothing is changed."),
    "recover": ("rolltape.cli.recover:recover", "Bring back the episode that a killed recording left, or drop it."),
    "pack": ("rolltape.cli.pack:pack", "Join the small video files that recording leaves."),
    "doctor": ("rolltape.cli.doctor:doctor", "Look at this machine: codecs, rendering, cameras, disk."),
    "version": ("rolltape.cli.version:version", "Print the version."),
}
"""Each command's import string and its line in the help."""


def build_app() -> App:
    """Return the application with all commands registered by import string, none of them imported."""
    from cyclopts import App, Group

    from rolltape._version import __version__

    app = App(
        name="rolltape",
        help="Robot episodes, from the first camera frame to the training batch.",
        help_epilogue="`rolltape COMMAND --help` says more. `--debug` shows the whole traceback of an error.",
        version=__version__,
        result_action="return_value",
    )
    app["--help"].group = app["--version"].group = Group("Options")
    for name, (target, text) in COMMANDS.items():
        app.command(target, name=name, help=text)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: The command line without the program's name; `sys.argv` when left out.
    """
    from rolltape.cli.flags import join_booleans

    tokens = join_booleans(sys.argv[1:] if argv is None else argv)
    debug = os.environ.get("ROLLTAPE_DEBUG", "").lower() not in {"", "0", "false"}
    if "--debug" in _before_dashes(tokens):
        tokens.remove("--debug")
        debug = True
    try:
        return _run(tokens, debug)
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped.\n")
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not our failure. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _before_dashes(tokens: Sequence[str]) -> Sequence[str]:
    return tokens[: tokens.index("--")] if "--" in tokens else tokens


def _run(tokens: list[str], debug: bool) -> int:
    from cyclopts import CycloptsError

    from rolltape.cli.printing import print_error, print_json
    from rolltape.errors import RolltapeError, UsageError

    try:
        result = build_app()(tokens, exit_on_error=False, print_error=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except CycloptsError as error:
        if "--json" in _before_dashes(tokens):
            print_json({"error": _error_parts(error.__cause__ if isinstance(error.__cause__, UsageError) else error)})
        if isinstance(error.__cause__, UsageError):
            print_error(str(error.__cause__))
        else:
            print_error(f"{' '.join(str(error).split())}\n  do: rolltape {_command(tokens)}--help")
        return 2
    except (RolltapeError, OSError) as error:
        if isinstance(error, BrokenPipeError) and not isinstance(error, RolltapeError):
            raise
        if "--json" in _before_dashes(tokens):
            print_json({"error": _error_parts(error)})
        if debug:
            import traceback

            traceback.print_exc()
        else:
            print_error(f"error: {error}")
        return 2 if isinstance(error, UsageError) else 1


def _command(tokens: Sequence[str]) -> str:
    return f"{tokens[0]} " if tokens and tokens[0] in COMMANDS else ""


def _error_parts(error: Exception) -> dict[str, object]:
    names = ("what", "where", "expected", "found", "fix")
    parts = {name: getattr(error, name) for name in names if getattr(error, name, None) is not None}
    return {"type": type(error).__name__, "message": str(error), **parts}
