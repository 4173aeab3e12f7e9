"""On a host: run a Python program in a fork of the agent, without starting an interpreter.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback

from kraftwreck.harness.on_host.process import RefusedError


def run_program(argv: list[str]) -> None:
    """Run ``argv``, an interpreter's path and a program with arguments, until it ends.

    Raises :class:`RefusedError`, with the last line of its output, unless its exit status is 0.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for target in (1, 2):
                os.dup2(write, target)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            sys.argv = argv[1:]
            runpy.run_path(argv[1], run_name="__main__")
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as output:
        said = output.read().decode(errors="replace").strip().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        raise RefusedError((said or [f"exit status {status}"])[-1])
