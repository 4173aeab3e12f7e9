"""The ``kraftwreck`` command: one file per subcommand, imported when it is used."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module

import click

BAD_ARGUMENTS = 254
FAILED = 255

COMMANDS: dict[str, str] = {
    "run": "One test: deploy, run, break, heal, check, report.",
    "sim": "Many simulated runs; stop at, shrink and save failures.",
    "shrink": "The smallest case that fails as a run did.",
    "replay": "Run a recorded run again: all of it, or one node.",
    "check": "Check any history, ours or anyone's.",
    "convert": "Write a history in another format.",
    "mutants": "The detection campaign over planted bugs.",
    "nightly": "A budgeted night of runs, resumable; confirm fixes.",
    "analyze": "Compute tables over all runs of a store with Spark.",
    "report": "Build a run's HTML report again.",
    "serve": "Browse a store.",
    "cluster": "Clusters by hand: up, status, heal, down.",
    "list": "What systems, workloads, faults, checkers and mutants there are.",
}
"""Names and summaries; the module of a command is ``kraftwreck.<name>``."""


class LazyGroup(click.Group):
    """A group whose commands live in modules that are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        path = f"kraftwreck.{cmd_name}"
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
        # The summaries stand above: help must not import Spark.
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kraftwreck")
def cli() -> None:
    """Break replicated systems on purpose, and judge what they did.

    Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments or a missing tool,
    255 the harness itself failed, 130 interrupted.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit. Mistakes of the user are one line and exit code 254."""
    sys.exit(status(arguments))


def status(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        result = cli.main(args=arguments, prog_name="kraftwreck", standalone_mode=False)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "kraftwreck"
        text = " ".join(error.format_message().split())
        click.echo(f"{where}: {text} (see {where} --help)", err=True)
        return BAD_ARGUMENTS
    except click.ClickException as error:
        click.echo(f"kraftwreck: {' '.join(error.format_message().split())}", err=True)
        return BAD_ARGUMENTS
    except (click.Abort, KeyboardInterrupt):
        click.echo("kraftwreck: interrupted", err=True)
        return 130
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else (0 if stop.code is None else FAILED)
    except Exception:
        # A bug of ours. Python's own exit code would be 1, which means "invalid".
        traceback.print_exc()
        click.echo("kraftwreck: the harness failed; this is a bug, see above", err=True)
        return FAILED
    # With standalone_mode off, click hands an exit code of ctx.exit back as the result.
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
