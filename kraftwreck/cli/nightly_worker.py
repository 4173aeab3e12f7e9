"""The process of one nightly run: ``python -m kraftwreck.cli.nightly_worker``.

With arguments it runs that ``kraftwreck`` command, which then ends with the night, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kraftwreck.cli.main import status
from kraftwreck.nightly.child import die_with_night
from kraftwreck.nightly.worker import Commands, Say, work


def write_pages(folder: Path, say: Say) -> None:
    """Write the pages of a run; the reports are imported only then."""
    from kraftwreck.reports import pages

    pages.write_pages(folder, say)


def main() -> int:
    """Answer the request on standard input; with arguments run that kraftwreck command."""
    if sys.argv[1:]:
        die_with_night()
        return status(sys.argv[1:])
    return work(Commands(status, write_pages))


if __name__ == "__main__":
    sys.exit(main())
