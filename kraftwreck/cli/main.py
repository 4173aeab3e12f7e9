"""The ``kraftwreck`` command: one file per subcommand, imported when it is used."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from importlib import import_module

import click

from kraftwreck.histories.exit_codes import (
    BAD_ARGUMENTS,
    FAILED,
    INTERRUPTED,
    MEANINGS,
    CommandError,
)

COMMANDS: dict[str, str] = {
    "run": "Run one test: deploy, run clients, inject faults, heal, check, report.",
    "sim": "Run many simulated tests; save and shrink the failures.",
    "shrink": "Find the smallest case that fails like a given run.",
    "replay": "Repeat a recorded run (or one node of it) and compare.",
    "check": "Check any history: kraftwreck's, Jepsen's or your own.",
    "convert": "Convert a history to another format.",
    "mutants": "Plant bugs and measure how soon the tests find them.",
    "nightly": "Run tests all night within a budget; confirm fixes.",
    "analyze": "Compute tables over all runs of a store with Spark.",
    "report": "Write a run's HTML report again.",
    "serve": "Browse the runs of a store.",
    "table": "Print one table of the verdicts of all runs, for a page.",
    "cluster": "Manage clusters by hand: up, status, heal, down.",
    "list": "List systems, workloads, faults, checkers and mutants.",
}
"""Names and summaries; the module of a command is ``kraftwreck.cli.<name>``."""


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        path = f"kraftwreck.cli.{cmd_name}"
        try:
            module = import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise
            raise click.UsageError(f"this build has no command {cmd_name!r}", ctx) from error
        command = getattr(module, "cli", None) or getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Use the summaries above: help must not import Spark.
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=False,
    epilog="Exit codes: " + ", ".join(f"{code} {text}" for code, text in MEANINGS.items()) + ".",
)
@click.version_option(package_name="kraftwreck")
def cli() -> None:
    """Inject faults into replicated systems, and check what they did."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit. A user's mistake gives one line and exit code 254."""
    code = status(arguments)
    gc.freeze()  # Or Python would search all that a run has left for cycles: a third of a second.
    sys.exit(code)


def status(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    An error of a known cause is printed as one line on standard error, without a traceback.
    """
    given = sys.argv[1:] if arguments is None else arguments
    try:
        result = cli.main(args=given, prog_name="kraftwreck", standalone_mode=False)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "kraftwreck"
        _say(where, f"{error.format_message()} (see {where} --help)")
        return BAD_ARGUMENTS
    except click.ClickException as error:
        _say(_command(given), error.format_message())
        return BAD_ARGUMENTS
    except CommandError as error:
        for line in str(error).splitlines():
            _say(_command(given), line)
        return error.exit_code
    except BrokenPipeError:
        # The reader closed the pipe; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        name = "" if error.filename is None else f"{error.filename}: "
        _say(_command(given), f"{name}{error.strerror or error}")
        return FAILED
    except MemoryError:
        _say(_command(given), "out of memory; use a smaller input or a machine with more")
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        _say("kraftwreck", "interrupted")
        return INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else (0 if stop.code is None else FAILED)
    except Exception:
        # An unexpected exception. Python's own exit code 1 would mean "invalid".
        traceback.print_exc()
        _say("kraftwreck", "internal error; this is a bug in kraftwreck, see the traceback above")
        return FAILED
    # With standalone_mode off, click returns the exit code of ctx.exit.
    return result if isinstance(result, int) else 0


def _command(given: list[str]) -> str:
    """Return the command that was called, with its subcommand if it has any."""
    words = [word for word in given if not word.startswith("-")]
    named = words[: 2 if words[:1] == ["cluster"] else 1]
    return " ".join(["kraftwreck", *named])


def _say(where: str, text: str) -> None:
    click.echo(f"{where}: {' '.join(text.split())}", err=True)


if __name__ == "__main__":
    main()
