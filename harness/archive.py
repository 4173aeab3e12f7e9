"""The node code as one zip file that plain Python can run, as sources and compiled modules."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""The folder of the package kraftwreck: in a checkout its subpackages are links to the folders at
the root, so no path is resolved here."""
IMPORT_ROOT = PACKAGE.parent
"""The folder to put into ``PYTHONPATH`` of a process that imports kraftwreck."""
PROJECT_TREE = PACKAGE / "nodes"
_PACKAGE = "kraftwreck/__init__.py"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAIN = (
    'import runpy\n\nrunpy.run_module("kraftwreck.nodes", run_name="__main__", alter_sys=True)\n'
)


def build_archive(tree: Path = PROJECT_TREE) -> bytes:
    """Return the zip of the package ``tree`` (the folder ``nodes`` itself).

    Equal sources give equal bytes, whatever their times, owners and order on disk.
    Raises FileNotFoundError when ``tree`` has no ``__main__.py``.
    """
    if not (tree / "__main__.py").is_file():
        raise FileNotFoundError(f"{tree}: not a tree of node code; __main__.py is missing")
    files = sorted(
        path
        for path in tree.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in _LEFT_OUT
    )
    return _zipped(tuple((path.relative_to(tree).as_posix(), path.read_bytes()) for path in files))


@lru_cache(maxsize=4)
def _zipped(files: tuple[tuple[str, bytes], ...]) -> bytes:
    from kraftwreck.harness import compiled_archive  # The supervisor of hosts does not need it.

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, "__main__.py", _MAIN.encode())
        _add(archive, _PACKAGE, compiled_archive.PACKAGE.encode())
        for name, content in files:
            _add(archive, f"kraftwreck/nodes/{name}", content)
    return buffer.getvalue()


@lru_cache(maxsize=4)
def with_bytecode(archive: bytes) -> bytes:
    """Return ``archive`` with its code also compiled, for this version of Python
    (:mod:`harness.compiled_archive`).

    Another version of Python ignores the compiled code, whose magic number differs, and compiles
    the sources.
    """
    from kraftwreck.harness import compiled_archive

    buffer = io.BytesIO(archive)
    with zipfile.ZipFile(buffer, "a") as both:
        for name in (_PACKAGE, "__main__.py"):
            _add(both, f"{name}c", _compiled(both.read(name), name), zipfile.ZIP_STORED)
        # Stored: nodes start a tenth faster without compression.
        _add(both, compiled_archive.FILE, compiled_archive.compiled(archive), zipfile.ZIP_STORED)
    return buffer.getvalue()


def _compiled(source: bytes, name: str) -> bytes:
    """Return the content of a ``.pyc`` file that is never checked against its source (PEP 552)."""
    code = marshal.dumps(compile(source, name, "exec", dont_inherit=True))
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + code


_UNCHECKED = (0b01).to_bytes(4, "little")
"""The flags of a ``.pyc`` file whose source hash is not checked."""

_LEFT_OUT = {".pyc", ".orig", ".rej"}
"""Compiled files, and files that patching leaves behind."""


def _add(
    archive: zipfile.ZipFile, name: str, content: bytes, how: int = zipfile.ZIP_DEFLATED
) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.external_attr = 0o644 << 16
    entry.compress_type = how
    # Level 1: archives are made and sent often, and are small at any level.
    archive.writestr(entry, content, compresslevel=1)


def compressed(content: bytes) -> bytes:
    """Return ``content`` compressed by zlib; that of large files, which many hosts get, is kept."""
    return _large(content) if len(content) > _LARGE else zlib.compress(content, 1)


@lru_cache(maxsize=4)
def _large(content: bytes) -> bytes:
    return zlib.compress(content, 1)


_LARGE = 1 << 16


def digest(archive: bytes) -> str:
    """Return the SHA-256 of an archive of sources, for ``test.json``."""
    return hashlib.sha256(archive).hexdigest()
