"""Artefacts that were fetched, kept on the control node and verified whenever they are used.

An entry is a folder below ``$XDG_CACHE_HOME/kraftwreck/artefacts``: ``downloads`` (the pinned
files), ``content.tar`` (the prefix as hosts get it) and ``content.sha256``. It is made under
another name and renamed, so that an entry is complete or missing, and concurrent runs share it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraftwreck.harness.deploy.artefacts import (
    Artefact,
    ArtefactError,
    file_sha256,
    sha256,
)
from kraftwreck.histories.exit_codes import BadInputError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_PART = ".part-"


@dataclass(frozen=True, slots=True)
class Fetched:
    """An artefact in the cache: its ``tar`` has the prefix, with SHA-256 ``digest``."""

    name: str
    tar: Path
    digest: str


def cache_folder() -> Path:
    """Return where artefacts are kept, by the XDG base directory specification."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "kraftwreck" / "artefacts"


class ArtefactCache:
    """Fetches each artefact once. Safe to use by several processes at a time."""

    def __init__(
        self, folder: Path | None = None, say: Callable[[str], None] = lambda line: None
    ) -> None:
        self.folder = folder or cache_folder()
        self._say = say

    def fetch_all(self, artefacts: Sequence[Artefact]) -> list[Fetched]:
        """Return all ``artefacts``, fetching those that are missing or damaged.

        Raises :class:`ArtefactError` (a download, a checksum) or
        :class:`~kraftwreck.histories.exit_codes.BadInputError` (a tool or a file is missing).
        """
        names = [artefact.name for artefact in artefacts]
        for name in names:
            if not NAME.fullmatch(name):
                raise BadInputError(f"{name!r} is not a name of an artefact (letters, digits, ._-)")
            if names.count(name) > 1:
                raise BadInputError(f"two artefacts are called {name!r}")
        return [self.fetch(artefact) for artefact in artefacts]

    def fetch(self, artefact: Artefact) -> Fetched:
        """Return one artefact; as :meth:`fetch_all`."""
        key = sha256("\n".join([artefact.name, *artefact.identity()]).encode())
        entry = self.folder / f"{artefact.name}-{key[:16]}"
        if entry.is_dir():
            found = self._verified(artefact, entry)
            if found is not None:
                return found
            shutil.rmtree(entry, ignore_errors=True)
        self._say(f"fetching {artefact.name}")
        try:
            self._make(artefact, entry)
        except OSError as error:
            raise ArtefactError(f"{artefact.name}: the cache {self.folder}: {error}") from error
        made = self._verified(artefact, entry)
        if made is None:
            raise ArtefactError(f"{artefact.name}: {entry} was changed while it was made")
        return made

    @staticmethod
    def _verified(artefact: Artefact, entry: Path) -> Fetched | None:
        """Return the entry if it is complete and undamaged."""
        tar = entry / "content.tar"
        try:
            artefact.check(entry / "downloads")
            digest = (entry / "content.sha256").read_text().strip()
            if file_sha256(tar) != digest:
                return None
        except (OSError, ArtefactError):
            return None
        return Fetched(artefact.name, tar, digest)

    def _make(self, artefact: Artefact, entry: Path) -> None:
        part = self.folder / f"{_PART}{os.getpid()}-{secrets.token_hex(4)}"
        try:
            for folder in ("downloads", "scratch", "prefix"):
                (part / folder).mkdir(parents=True)
            artefact.download(part / "downloads", part / "scratch")
            artefact.check(part / "downloads")
            artefact.lay_out(part / "downloads", part / "prefix")
            pack(part / "prefix", part / "content.tar")
            (part / "content.sha256").write_text(file_sha256(part / "content.tar") + "\n")
            for folder in ("scratch", "prefix"):
                _remove(part / folder)
            try:
                part.rename(entry)
            except OSError:
                if not entry.is_dir():  # Otherwise another process was faster.
                    raise
        finally:
            _remove(part)


def pack(prefix: Path, tar: Path) -> None:
    """Write the files below ``prefix`` to ``tar``; equal files give equal bytes."""
    with tarfile.open(tar, "w") as archive:
        for path in sorted(prefix.rglob("*")):
            if path.is_socket():
                continue  # It has no place in an archive.
            entry = archive.gettarinfo(path, str(path.relative_to(prefix)))
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            if entry.isfile():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)


def _remove(folder: Path) -> None:
    """Remove a folder, also one with read-only folders, such as a cache of Go modules."""

    def writable(function: Callable[[str], object], path: str, _: object) -> None:
        parent = Path(path).parent
        parent.chmod(0o700)
        function(path)

    if folder.exists():
        shutil.rmtree(folder, onerror=writable)
