"""A history source that serves each checker in the form it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from kraftwreck.histories.columns import read_table, table_of
from kraftwreck.histories.events import Event, guess_format, read_events, to_ops
from kraftwreck.histories.json_lines import torn_line
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HistoryError


class Source(ABC):
    """The client events of a history, as events, operations or columns."""

    @abstractmethod
    def events(self) -> Iterator[Event]:
        """Yield the events in order. Raises :class:`HistoryError`."""

    def ops(self) -> Iterator[Op]:
        """Yield the events as operations of ours. Raises :class:`HistoryError`."""
        return to_ops(self.events())

    @abstractmethod
    def table(self) -> pa.Table:
        """Return the events as columns. Raises :class:`HistoryError`."""


class HistoryFile(Source):
    """A file or a folder of Parquet files, read lazily."""

    def __init__(self, path: Path, kind: str | None = None, *, independent: bool = False) -> None:
        self.path = path
        self.kind = kind or guess_format(path)
        self.independent = independent
        if not path.exists():
            raise HistoryError(f"{path}: No such file or directory")

    @property
    def torn_line(self) -> int | None:
        """The number of the last line if it is torn and therefore not part of the history."""
        try:
            return torn_line(self.path) if self.kind == "jsonl" else None
        except OSError as error:
            raise HistoryError(f"{self.path}: {error.strerror}") from error

    def events(self) -> Iterator[Event]:
        return read_events(self.path, self.kind, independent=self.independent)

    def table(self) -> pa.Table:
        return read_table(self.path, self.kind, independent=self.independent)


class Events(Source):
    """Events in memory."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events: Sequence[Event] = list(events)

    def events(self) -> Iterator[Event]:
        return iter(self._events)

    def table(self) -> pa.Table:
        return table_of(self._events)
