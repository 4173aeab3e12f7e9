"""The list of all runs of a store: verdict, what was run, links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup

from histories.store import RUNNING
from histories.verdict import Validity
from reports import words
from reports.page import environment, policy, style
from reports.run_folder import RunFolderError


class _Head(msgspec.Struct):
    """The little of ``results.json`` that a list needs."""

    valid: Validity
    checkers: dict[str, dict[str, Any]] = {}


@dataclass
class RunSummary:
    """One run of the list. ``path`` is relative to the store, with ``/``."""

    path: str
    name: str
    run: str
    valid: Validity | None
    seed: str
    started: str
    faults: str
    cluster: str
    why: str
    finished: bool
    has_report: bool

    @property
    def label(self) -> str:
        return words.LABELS[self.valid] if self.finished else "unfinished"

    @property
    def css(self) -> str:
        return words.CLASSES[self.valid]

    @property
    def sign(self) -> str:
        return words.SIGNS[self.valid] if self.finished else "…"

    @property
    def href(self) -> str:
        """Where to look at it: the report if there is one, else the folder."""
        return quote(self.path) + ("/report.html" if self.has_report else "/")


def list_runs(store: Path) -> list[RunSummary]:
    """Return the runs of ``store``, newest first; links (``latest``) are not followed.

    Raises :class:`~reports.run_folder.RunFolderError` when there is no such folder.
    """
    if not store.is_dir():
        raise RunFolderError(f"{store}: no such folder; give a store like ./store")
    folders = [
        test.parent
        for pattern in ("*/test.json", "*/*/test.json")
        for test in store.glob(pattern)
        if not any(p.is_symlink() for p in (test.parent, test.parent.parent) if p != store)
    ]
    folders.sort(key=lambda folder: (folder.name, str(folder)), reverse=True)
    return [summary(store, folder) for folder in folders]


def summary(store: Path, folder: Path) -> RunSummary:
    """Return what the list says about the run in ``folder``, readable or not."""
    test, head, why = _read(folder)
    faults = test.get("faults")
    return RunSummary(
        path=folder.relative_to(store).as_posix(),
        name=words.run_name(test) if test else folder.parent.name,
        run=folder.name,
        valid=None if head is None else head.valid,
        seed=str(test.get("seed", "")),
        started=str(test.get("started_wall", "")),
        faults=", ".join(map(str, faults)) if isinstance(faults, list) else "",
        cluster=str(test.get("cluster", "")),
        why=why,
        finished=not folder.name.endswith(RUNNING),
        has_report=(folder / "report.html").is_file(),
    )


def _read(folder: Path) -> tuple[dict[str, Any], _Head | None, str]:
    try:
        test = msgspec.json.decode((folder / "test.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}, None, "test.json cannot be read"
    try:
        head = msgspec.json.decode((folder / "results.json").read_bytes(), type=_Head)
    except FileNotFoundError:
        return test, None, "no results.json"
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return test, None, "results.json cannot be read"
    parts = []
    for name, checker in head.checkers.items():
        anomalies = checker.get("anomalies")
        if checker.get("valid") is False:
            count = len(anomalies) if isinstance(anomalies, list) else 0
            parts.append(f"{name}: {words.plural(count, 'anomaly', 'anomalies')}")
        elif checker.get("valid") == "unknown":
            parts.append(f"{name}: undecided")
    return test, head, ", ".join(parts)


def render_index(store: Path) -> str:
    """Return the page that lists the runs of ``store``."""
    runs = list_runs(store)
    css = style()
    counts = {
        "valid": sum(r.valid is True for r in runs),
        "INVALID": sum(r.valid is False for r in runs),
        "not decided": sum(r.valid not in (True, False) for r in runs),
    }
    return (
        environment()
        .get_template("index.html.j2")
        .render(
            store=store.resolve().name,
            runs=runs,
            counts=counts,
            css=Markup(css),  # noqa: S704 - our own asset
            policy=policy(css),
        )
    )


def write_index(store: Path) -> Path:
    """Write ``index.html`` into ``store`` and return its path."""
    page = render_index(store)
    path = store / "index.html"
    temporary = path.with_name("index.html.tmp")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(path)
    return path
