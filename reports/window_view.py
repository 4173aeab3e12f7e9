"""Draws the window of a contradiction as Porcupine does: bars, and orders through them.

A numbered point on a bar is the moment at which the operation takes effect in an order; the points
of an order run from left to right.
"""

from __future__ import annotations

from kraftwreck.checkers.calls import OPEN, Call
from kraftwreck.histories.operation import FAIL, OK
from kraftwreck.reports.drawing import Order, Picture, Span, draw
from kraftwreck.reports.linearization import LegalOrder, Window, label, name


def draw_window(window: Window) -> Picture:
    """Draw ``window`` with all its orders, the longest first."""
    place = {call.start: i for i, call in enumerate(window.calls)}
    return draw(
        [_span(call, window) for call in window.calls],
        [_order(window, order, place) for order in window.orders],
        _note(window),
    )


def _note(window: Window) -> str:
    if window.placed <= 0:
        return window.origin
    before = f", after which the value is {window.before}" if window.before else ""
    noun = "operation comes" if window.placed == 1 else "operations come"
    pale = "; the pale ones are among them" if window.earlier else ""
    text = f"{window.placed:,} earlier {noun} before these orders{before}{pale}."
    return f"{text} {window.origin}".strip()


def _span(call: Call, window: Window) -> Span:
    kind = "ok" if call.type == OK else "fail" if call.type == FAIL else "info"
    return Span(
        process=call.process, start=call.start, end=call.end, type=kind, label=label(call),
        title=f"{name(call)}, {'its outcome is unknown' if call.end == OPEN else kind}",
        stuck=call.start == window.stuck, earlier=call.start in window.earlier,
    )  # fmt: skip


def _order(window: Window, order: LegalOrder, place: dict[int, int]) -> Order:
    known = {call.start: call for call in window.calls}
    return Order(
        spans=[place[start] for start in order.calls],
        words=[
            f"{name(known[start])}" + (f": the value is now {state}" if state else "")
            for start, state in zip(order.calls, order.states, strict=True)
        ],
        blocked=[f"{name(known[start])} {why}." for start, why in order.blocked],
        refused=[place[start] for start, _ in order.blocked],
    )
