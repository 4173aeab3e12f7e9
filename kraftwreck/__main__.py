"""``python -m kraftwreck``: the command line without an installed script."""

from __future__ import annotations

from kraftwreck.main import main

if __name__ == "__main__":
    main()
