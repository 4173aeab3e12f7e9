"""Link targets of pages, on the server or in an exported folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from urllib.parse import quote, urlencode

from kraftwreck.reports.store.index import RunSummary

COMPARED = "compare"
MAX_PAIRS = 500


@dataclass
class Pairs:
    """The pairs of runs to which pages of an export link, by the name of their page."""

    runs: frozenset[str]
    """Runs that have a folder."""
    pages: dict[str, tuple[str, str]] = field(default_factory=dict)

    def page(self, a: str, b: str) -> str:
        """Return the page of a pair, which the export will write; empty if it cannot have one."""
        name = blake2b(f"{a}\0{b}".encode(), digest_size=8).hexdigest() + ".html"
        if name not in self.pages:
            if not {a, b} <= self.runs or len(self.pages) >= MAX_PAIRS:
                return ""
            self.pages[name] = (a, b)
        return f"{COMPARED}/{name}"


@dataclass(frozen=True)
class Links:
    """Links from a page to others; ``root`` (such as ``../../``) leads to the first page.

    ``copied`` are the runs in an export; None on the server, which has all. ``pairs`` collects the
    pairs of runs that the export must compare. A link that is not possible is an empty string.
    """

    root: str = ""
    copied: frozenset[str] | None = None
    pairs: Pairs | None = None

    @property
    def live(self) -> bool:
        """Whether a server delivers the pages."""
        return self.copied is None

    @property
    def home(self) -> str:
        """The store's overview."""
        return (self.root or "./") if self.live else f"{self.root}index.html"

    def run(self, run: RunSummary) -> str:
        """The report of ``run``, or its files if it has none."""
        if not run.path:
            return ""
        if self.copied is None:
            return self.root + run.href
        return f"{self.root}{quote(run.path)}/report.html" if run.path in self.copied else ""

    def files(self, run: RunSummary) -> str:
        """The folder of ``run``."""
        return f"{self.root}{quote(run.path)}/" if run.path and self.live else ""

    def night(self, name: str) -> str:
        """The page of night ``name``."""
        return f"{self.root}nights/{quote(name)}/" + ("" if self.live else "index.html")

    def night_file(self, name: str, file: str) -> str:
        """A file of night ``name``."""
        return f"{self.root}nights/{quote(name)}/{quote(file)}" if self.live else ""

    def compare(self, a: str, b: str) -> str:
        """The comparison page of two runs."""
        if not (a and b) or a == b:
            return ""
        if not self.live:
            page = self.pairs.page(a, b) if self.pairs is not None else ""
            return f"{self.root}{page}" if page else ""
        return f"{self.root}compare?{urlencode({'a': a, 'b': b})}"
