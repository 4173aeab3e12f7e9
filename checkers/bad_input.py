"""Errors whose cause is the history or its options, each with the line that the user reads."""

from __future__ import annotations

from kraftwreck.checkers.calls import HistoryShapeError
from kraftwreck.checkers.elle.binding import ElleMissingError
from kraftwreck.checkers.elle.models import UnknownModelError
from kraftwreck.checkers.elle.transactions import TransactionError
from kraftwreck.checkers.linearizability.models import ModelError
from kraftwreck.histories.tables import HistoryError

BAD_INPUT = (
    HistoryError,
    HistoryShapeError,
    ModelError,
    TransactionError,
    UnknownModelError,
    ElleMissingError,
    RecursionError,
)


def reason_of(error: BaseException) -> str:
    """Return in one line why a history could not be judged."""
    if isinstance(error, RecursionError):
        return "values are nested too deeply to be compared"
    return " ".join(str(error).split()) or type(error).__name__
