"""Strings that are put and appended to, decided by sorting if each shows how it was made.

Model: Porcupine's key-value store (``get``, ``put``, ``append``; initially the empty string). A
string that was read is the value of one put, or the initial one, followed by the values of appends.
If every string that was read can be split in one way only, the key is a register whose written
values are distinct, which :mod:`checkers.linearizability.zones.decide` decides:

1. A put is a write.
2. An append whose value was read comes right after one string, so it is a compare-and-set.
3. An append whose value was never read is a write of its own value: until the next put no read,
   and no append that was read, can follow, since their strings would hold it.
4. A string that cannot be split has no explanation, nor has an append that comes right after two
   strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from kraftwreck.checkers.calls import Call, known
from kraftwreck.checkers.linearizability.keyed import brief, describe
from kraftwreck.checkers.linearizability.level_walk import Outcome
from kraftwreck.checkers.linearizability.zones.decide import gather, judge, needed, order_of
from kraftwreck.checkers.linearizability.zones.operations import CAS, READ, WRITE, Operations
from kraftwreck.checkers.linearizability.zones.registers import words
from kraftwreck.checkers.linearizability.zones.window import contradiction
from kraftwreck.histories.operation import FAIL, OK

_INITIAL = -1
"""Stands for the initial value in place of a mutator."""


def seen(call: Call) -> str:
    """Return the string that a ``get`` returned; null is the empty one."""
    return call.value or ""


@dataclass
class _Strings:
    """Splits strings, in sorted order, so that a common prefix of two is examined once.

    For the last string, ``ways[i]`` is the number of ways in which its first ``i`` characters can
    have been made (2: two or more). ``last[i]`` is the mutator that made them (a position in the
    history), and ``before[i]`` the number of characters before it.
    """

    puts: dict[str, int]
    appends: dict[str, int]
    text: str = ""
    ways: list[int] = field(default_factory=lambda: [1])
    last: list[int] = field(default_factory=lambda: [_INITIAL])
    before: list[int] = field(default_factory=lambda: [-1])

    def __post_init__(self) -> None:
        self._put_sizes = {len(text) for text in self.puts}
        self._sizes = sorted({len(text) for text in self.appends})

    def take(self, text: str) -> int:
        """Examine ``text`` and return in how many ways it can have been made."""
        shared = _shared(self.text, text)
        for column in (self.ways, self.last, self.before):
            del column[shared + 1 :]
        self.text = text
        for end in range(shared + 1, len(text) + 1):
            ways, last, before = 0, _INITIAL, -1
            if end in self._put_sizes and text[:end] in self.puts:
                ways, last = 1, self.puts[text[:end]]
            for size in self._sizes:
                if size > end:
                    break
                count = self.ways[end - size]
                if count and text[end - size : end] in self.appends:
                    ways, before = ways + count, end - size
                    last = self.appends[text[before:end]]
            self.ways.append(min(ways, 2))
            self.last.append(last)
            self.before.append(before)
        return self.ways[-1]


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix of two strings."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def decide(calls: Sequence[Call]) -> Outcome | None:
    """Decide the calls of one key, of a history that the model knows; None if sorting does not.

    ``order`` of a valid outcome is a legal order of all calls that count; of an invalid one, an
    order of those before the first completion without an order.
    """
    found = _decide(calls)
    if found is None or found.valid is True:
        return found
    ends = sorted(call.completion for call in calls if call.type in (OK, FAIL))
    legal, illegal = 0, len(ends)
    order: list[int] = []
    while illegal - legal > 1:
        middle = (legal + illegal) // 2
        moment = ends[middle - 1]
        before = _decide([known(call, moment) for call in calls if call.start <= moment])
        if before is None or before.valid is True:
            legal = middle
            order = before.order if before else []
        else:
            illegal, found = middle, before
    as_ended = {call.start: call for call in calls}
    return replace(
        found,
        order=order,
        placed=len(order),
        stuck=next(call for call in calls if call.completion == ends[illegal - 1]),
        window=[as_ended[call.start] for call in found.window],
    )


def _decide(calls: Sequence[Call]) -> Outcome | None:
    calls = [call for call in calls if call.type != FAIL]
    puts: dict[str, int] = {}
    appends: dict[str, int] = {}
    reads: dict[str, list[int]] = {}
    for at, call in enumerate(calls):
        if call.f == "get":
            if call.type == OK:
                reads.setdefault(seen(call), []).append(at)
            continue
        mutators = puts if call.f == "put" else appends
        if not call.argument or call.argument in mutators:
            return None
        mutators[call.argument] = at
        # By mutator: the string before an append, and the read that shows it.
    behind: dict[int, int] = {}
    seen_by: dict[int, int] = {}
    made: dict[str, int] = {}
    strings = _Strings(puts, appends)
    for text in sorted(reads):
        reader = reads[text][0]
        ways = strings.take(text)
        if ways > 1:
            return None
        if not ways:
            why = f"{describe(calls[reader])} saw a string that no put and append had made by then."
            return _refused(why, calls[reader])
        made[text], end = strings.last[-1], len(text)
        while strings.before[end] >= 0:
            one, end = strings.last[end], strings.before[end]
            if behind.setdefault(one, strings.last[end]) != strings.last[end]:
                window = [calls[one], calls[seen_by[one]], calls[reader]]
                what, first, second = map(describe, window)
                why = f"{what} happened once, but {first} and {second} saw it after two values."
                return _refused(why, *window)
            if one in seen_by:
                break
            seen_by[one] = reader
    return _sorted(calls, behind, {at: made[text] for text, ats in reads.items() for at in ats})


def _refused(why: str, *window: Call) -> Outcome:
    return Outcome(valid=False, order=[], window=list(window), why=why)


def _sorted(calls: list[Call], behind: dict[int, int], read: dict[int, int]) -> Outcome:
    """Decide the register: ``behind`` has the strings before appends, ``read`` those of gets."""
    ended = [call.end for call in calls if call.type == OK]
    never = max([*ended, *(call.start for call in calls)], default=0) + 1
    kinds = [READ if c.f == "get" else CAS if at in behind else WRITE for at, c in enumerate(calls)]
    counts = [call.f != "get" or call.type == OK for call in calls]
    operations = Operations(
        start=np.array([call.start for call in calls], np.int64),
        end=np.array([call.end if call.type == OK else never for call in calls], np.int64),
        kind=np.array(kinds, np.int8),
        key=np.zeros(len(calls), np.int64),
        value=np.array([read.get(at, at) + 1 for at in range(len(calls))], np.int64),
        expected=np.array([behind.get(at, -2) + 1 for at in range(len(calls))], np.int64),
        keys=["null"],
        values=len(calls) + 1,
        never=never,
    )
    every = needed(operations.where(np.array(counts, np.bool_)))
    clusters = gather(every)
    blocks, faults = judge(every, clusters)
    if not faults:
        return Outcome(valid=True, order=every.start[order_of(every, clusters, blocks)].tolist())
    found = contradiction(every)
    by_start = {call.start: call for call in calls}
    named = {at: by_start[int(every.start[at])] for at in found.core}
    return _refused(words(found, named, _value), *named.values())


def _value(*calls: Call) -> str:
    """Name the string that one of ``calls`` saw or made."""
    for call in calls:
        if call.f == "get":
            return brief(seen(call))
        if call.f == "put":
            return brief(call.argument)
    return f"the string that ends with {brief(calls[0].argument)}"
