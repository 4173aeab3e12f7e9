"""The pages of a finished run. An error in them never hides the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kraftwreck.histories.store import unwritten
from kraftwreck.reports.junit import write_junit
from kraftwreck.reports.run_folder import RunFolderError
from kraftwreck.reports.run_report import write_report


def write_pages(folder: Path, say: Callable[[str], None]) -> None:
    """Write the report and the JUnit file of the run in ``folder``.

    An error is reported with ``say``, in one line: it must not hide the verdict.
    """
    try:
        write_report(folder)
        write_junit(folder)
    except (RunFolderError, OSError) as error:
        say(unwritten(str(error)))
    except Exception as error:
        say(unwritten(f"{type(error).__name__}: {error}"))
