"""Any model of the catalogue as a checker of a run.

The checker ``model/NAME`` judges the run's history by the model ``NAME``
(:mod:`checkers.catalogue`), with options as JSON: ``model/bank:total-amount=80``. Names with
options are written into ``test.json``, so that a stored run is judged again in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.events import of_ops
from kraftwreck.histories.source import Events
from kraftwreck.histories.verdict import CheckerResult

PREFIX: Final = "model/"


def by_model(model: str, **options: Any) -> str:
    """Return the name of the checker for ``model`` with ``options`` (``_`` for ``-``)."""
    texts = [
        f"{name.replace('_', '-')}={msgspec.json.encode(value).decode()}"
        for name, value in sorted(options.items())
    ]
    return f"{PREFIX}{model}" + (f":{';'.join(texts)}" if texts else "")


def parse(name: str) -> Callable[[RunData], CheckerResult]:
    """Return the checker called ``name``.

    Raises :class:`KeyError` for an unknown model or option, or a value that is not JSON.
    """
    from kraftwreck.checkers import catalogue

    model, _, texts = name.removeprefix(PREFIX).partition(":")
    entry = catalogue.find(model)
    given: dict[str, Any] = {}
    for text in filter(None, texts.split(";")):
        key, _, value = text.partition("=")
        try:
            given[key] = msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise KeyError(f"{name}: the value of {key} is not JSON: {error}") from None
    settings = catalogue.Settings(options=catalogue.options_of(entry, given))

    def check(run: RunData) -> CheckerResult:
        return entry.judge(Events(of_ops(run.ops)), settings).result

    return check
