"""How errors name a line of code: a path below the project's folder is relative to it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import kraftwreck.harness

ROOT: Final = Path(str(kraftwreck.harness.__file__)).resolve().parents[1]
"""The folder that has the rooms of the project."""


def code_place(path: Path, line: int) -> str:
    """Return ``path`` and ``line`` as an error shows them; ``path`` is resolved."""
    return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}"
