"""The node code as one zip file that a bare Python runs."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

PROJECT_TREE = Path(__file__).resolve().parents[1] / "nodes"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAIN = 'import runpy\n\nrunpy.run_module("nodes", run_name="__main__", alter_sys=True)\n'


def build_archive(tree: Path = PROJECT_TREE) -> bytes:
    """Return the zip of the package ``tree`` (the folder ``nodes`` itself).

    The same sources give the same bytes, whatever their times, owners and order on disk.
    Raises FileNotFoundError when ``tree`` has no ``__main__.py``.
    """
    if not (tree / "__main__.py").is_file():
        raise FileNotFoundError(f"{tree} is not a tree of node code: it has no __main__.py")
    files = sorted(
        path
        for path in tree.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in _LEFT_OUT
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, "__main__.py", _MAIN.encode())
        for path in files:
            _add(archive, f"nodes/{path.relative_to(tree).as_posix()}", path.read_bytes())
    return buffer.getvalue()


_LEFT_OUT = {".pyc", ".orig", ".rej"}
"""Compiled files, and what patching leaves behind."""


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def digest(archive: bytes) -> str:
    """Return the archive's SHA-256, for ``test.json``."""
    return hashlib.sha256(archive).hexdigest()
