"""The package of docs/your-own-system.md, as files."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/your-own-system.md"
_FILE = re.compile(r"```(?:python|toml)\n# (my-etcd/\S+)\n(.*?)```", re.DOTALL)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def files() -> dict[str, str]:
    """Return the contents of the package's files by path."""
    return dict(_FILE.findall(PAGE.read_text()))


def write(folder: Path) -> Path:
    """Write the package below ``folder``; return its own folder."""
    for path, text in files().items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return folder / "my-etcd"


def commands() -> list[tuple[str, str]]:
    """Return the page's commands in order, each with the output that the page shows, or ""."""
    found = []
    for block in _CONSOLE.findall(PAGE.read_text()):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, _, shown = part.partition("\n")
            found.append((command, shown.strip()))
    return found
