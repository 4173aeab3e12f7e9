"""jepsen.tests.causal: one causal order of reads and writes of a register.

A client issues ``read-init``, ``write`` 1, ``read``, ``write`` 2, ``read``. Each completed
operation has its ``position`` and the ``link``, the position it comes after (``init`` for
none). Values are written in the order 1, 2, 3, …
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Step a causal register through the completed operations."""
    value = counter = 0
    position: Any = None
    for event in events:
        if event.type != "ok":
            continue
        error = None
        link = event.fields.get("link")
        if link not in ("init", position):
            error = f"Cannot link {link} to last-seen position {position}"
        elif event.f == "write":
            if event.value == counter + 1:
                value = counter = event.value
            else:
                error = f"expected value {counter + 1} attempting to write {event.value} instead"
        elif event.f in ("read", "read-init"):
            if event.f == "read-init" and counter == 0 and event.value != 0:
                error = f"expected init value 0, read {event.value}"
            elif event.value is not None and event.value != value:
                error = f"can't read {event.value} from register {value}"
        else:
            raise event.refuse("belongs to an operation that this model does not know")
        if error is not None:
            return Judgement(
                result={"valid?": False, "error": error},
                anomalies=[
                    Anomaly(type="causal", explanation=f"{error}.", operations=[event.index])
                ],
            )
        position = event.fields.get("position")
    model = {"value": value, "counter": counter, "last-pos": position}
    return Judgement(result={"valid?": True, "model": model})
