"""The workloads of any system: operations are verbs, which the system's client understands.

A system lists the verbs that it supports. Objects are named by the key of an operation: registers
and locks are numbers, the others have one key each (``set``, ``counter``, ``queue``, ``bank``).
``docs/workloads.md`` says what each verb means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.checkers.floor import Floor
from kraftwreck.checkers.modelled import by_model
from kraftwreck.harness.client import Client
from kraftwreck.harness.generator import Generator, Planned
from kraftwreck.harness.options import TRANSACTION
from kraftwreck.harness.workload import ClientSetting, Load, Workload
from kraftwreck.nodes.draw import draw_below
from kraftwreck.workloads.generators import (
    Cycle,
    EachThread,
    Plan,
    Plans,
    Stagger,
    UntilInfo,
    once,
    then,
)
from kraftwreck.workloads.independent import SequentialKeys

ACCOUNTS: Final = 5
FIRST_BALANCE: Final = 10
"""The balance of an account before any transfer."""
KEYS: Final = 3
"""Registers or lists that are in use at a time."""
FORK_ROUND: Final = 6
"""Operations of one thread of ``long-fork`` on one group of keys."""
ROUND: Final = 40
"""Operations of one thread before all threads move on to the next keys."""
MOST_LOCKS: Final = 10**9
"""Locks of a run, more than it can use."""
_LAST_VALUE: Final = 10**15
"""Above all values that a plan can hold."""


def _unchanged(generator: Generator) -> Generator:
    return generator


@dataclass(slots=True)
class GenericWorkload:
    """A workload of verbs. ``make`` returns the operations of one thread under a load, without
    pauses.

    ``last`` are the final operations, ``owed`` those of which some must succeed. ``around`` returns
    the operations of the run from those of all threads.
    """

    name: str
    about: str
    verbs: tuple[str, ...]
    checkers: Sequence[str]
    make: Callable[[Load], Generator]
    last: tuple[Planned, ...]
    owed: tuple[str, ...]
    floor: Floor = field(default_factory=lambda: Floor(share=0.05))
    around: Callable[[Generator], Generator] = _unchanged

    def generator(self, load: Load) -> Generator:
        """Return the operations of all threads at the rate of the run."""
        return self.around(EachThread(Stagger(self.make(load), load.period_s)))

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        """Return the final operations."""
        return self.last


def verbs_of(workload: Workload) -> tuple[str, ...]:
    """Return the verbs of a workload of any system; () for a workload of certain systems."""
    return tuple(getattr(workload, "verbs", ()))


class Spoken:
    """A workload of verbs with the clients of a system: ``speak`` makes the client of a thread."""

    def __init__(self, workload: Workload, speak: Callable[[ClientSetting], Client]) -> None:
        self.name = workload.name
        self.about: str = getattr(workload, "about", "")
        self.checkers = workload.checkers
        self.owed: Sequence[str] | None = getattr(workload, "owed", None)
        self.floor: Floor | None = getattr(workload, "floor", None)
        self.generator = workload.generator
        self.final = workload.final
        self._speak = speak

    def client(self, setting: ClientSetting) -> Client:
        """Return the client of one thread."""
        return self._speak(setting)


def _percent(seed: int, thread: int, count: int) -> int:
    return draw_below(100, seed, "kind", thread, count)


def _unique(thread: int, count: int) -> int:
    """Return a value that no other operation writes."""
    return count * 1000 + thread + 1


def _key(seed: int, thread: int, count: int, *of: object, keys: int = KEYS) -> int:
    """Return one of ``keys`` keys in use, sometimes an older one."""
    first = count // ROUND * keys
    if first and draw_below(100, seed, "old", thread, count, *of) < 8:
        return draw_below(first, seed, "older", thread, count, *of)
    return first + draw_below(keys, seed, "key", thread, count, *of)


def _registers(cas: bool) -> Plan:
    def plan(seed: int, thread: int, count: int) -> Planned:
        key, percent = _key(seed, thread, count), _percent(seed, thread, count)
        if percent < 45:
            return Planned("read", key)
        if cas and percent < 70:
            # Most expect a value of the same round, as nobody knows the current one.
            before = draw_below(count % ROUND + 1, seed, "before", thread, count)
            other = draw_below(thread + 3, seed, "other", thread, count)
            expected = _unique(other, count // ROUND * ROUND + before)
            return Planned("cas", key, [expected, _unique(thread, count)])
        return Planned("write", key, _unique(thread, count))

    return plan


def _set(seed: int, thread: int, count: int) -> Planned:
    if _percent(seed, thread, count) < 80:
        return Planned("add", "set", _unique(thread, count))
    return Planned("read", "set")


def _counter(seed: int, thread: int, count: int) -> Planned:
    if _percent(seed, thread, count) < 70:
        return Planned("add", "counter", 1 + draw_below(5, seed, "amount", thread, count))
    return Planned("read", "counter")


def _queue(seed: int, thread: int, count: int) -> Planned:
    if _percent(seed, thread, count) < 55:
        return Planned("enqueue", "queue", _unique(thread, count))
    return Planned("dequeue", "queue")


def _bank(seed: int, thread: int, count: int) -> Planned:
    if _percent(seed, thread, count) < 40:
        return Planned("read", "bank")
    source = draw_below(ACCOUNTS, seed, "from", thread, count)
    target = (source + 1 + draw_below(ACCOUNTS - 1, seed, "to", thread, count)) % ACCOUNTS
    amount = 1 + draw_below(5, seed, "amount", thread, count)
    return Planned("transfer", "bank", {"from": source, "to": target, "amount": amount})


def _transactions(write: str, load: Load) -> Plan:
    """Return transactions of micro-operations that read or ``write``.

    Larger ones have more keys, so that they meet as often as small ones: by the square of their
    size, and by the number of threads.
    """
    most, keys = load.transaction, KEYS
    if most > TRANSACTION:
        keys *= (most // TRANSACTION) ** 2 * load.concurrency
    unit = max(10, most)

    def plan(seed: int, thread: int, count: int) -> Planned:
        parts: list[list[Any]] = []
        for place in range(1 + draw_below(most, seed, "length", thread, count)):
            key = _key(seed, thread, count, place, keys=keys)
            if draw_below(2, seed, "part", thread, count, place):
                parts.append(["r", key, None])
            else:
                parts.append([write, key, _unique(thread, count) * unit + place])
        return Planned("txn", None, parts)

    return plan


def _long_fork(load: Load) -> Plan:
    """Return writes of keys that are written once each, and reads of the keys of a round.

    In each round a thread writes one key, at a drawn position, and otherwise reads all keys of the
    round.
    """
    threads = load.concurrency

    def plan(seed: int, thread: int, count: int) -> Planned:
        number, position = divmod(count, FORK_ROUND)
        if position == draw_below(FORK_ROUND, seed, "write", thread, number):
            key = number * threads + thread
            return Planned("txn", None, [["w", key, _unique(thread, count)]])
        group = list(range(number * threads, (number + 1) * threads))
        turn = draw_below(threads, seed, "turn", thread, count)
        return Planned("txn", None, [["r", key, None] for key in group[turn:] + group[:turn]])

    return plan


def _lock() -> Generator:
    """Return a thread's use of a lock: acquire, then release."""
    return Cycle(then(once("acquire"), once("release")))


def _locks(use: Generator) -> Generator:
    """Return the use of one lock after the other by all threads.

    An operation that ends ``info`` may leave a lock held by a process that no longer exists. All
    threads then move to the next lock, as with Jepsen's independent keys.
    """
    return SequentialKeys(range(MOST_LOCKS), lambda _: UntilInfo(use))


def _final_reads(*keys: Any) -> tuple[Planned, ...]:
    return tuple(Planned("read", key, final=True) for key in keys)


def _final_transaction(write: str) -> tuple[Planned, ...]:
    reads = [["r", key, None] for key in range(KEYS)]
    return (
        Planned("txn", None, [[write, 0, _LAST_VALUE]], final=True),
        Planned("txn", None, reads, final=True),
    )


_REGISTER_LAST: Final = (
    *_final_reads(0, 1),
    Planned("write", 0, _LAST_VALUE, final=True),
    *_final_reads(0),
)

_ALL: Final = (
    GenericWorkload(
        "register",
        "reads and unique writes of many linearizable registers",
        ("read", "write"),
        ("stats", by_model("register")),
        lambda _: Plans(_registers(cas=False)),
        _REGISTER_LAST,
        ("read", "write"),
    ),
    GenericWorkload(
        "cas-register",
        "reads, writes and compare-and-set of many linearizable registers",
        ("read", "write", "cas"),
        ("stats", by_model("cas-register")),
        lambda _: Plans(_registers(cas=True)),
        _REGISTER_LAST,
        ("read", "write"),
    ),
    GenericWorkload(
        "set",
        "unique elements are added, and stay in all later reads",
        ("add", "read"),
        ("stats", by_model("set-full")),
        lambda _: Plans(_set),
        _final_reads("set"),
        ("add", "read"),
    ),
    GenericWorkload(
        "append",
        "transactions that append to lists and read them",
        ("txn", "append"),
        ("stats", by_model("list-append")),
        lambda load: Plans(_transactions("append", load)),
        _final_transaction("append"),
        ("txn",),
    ),
    GenericWorkload(
        "txn",
        "transactions that read and write registers",
        ("txn", "write"),
        ("stats", by_model("rw-register")),
        lambda load: Plans(_transactions("w", load)),
        _final_transaction("w"),
        ("txn",),
    ),
    GenericWorkload(
        "long-fork",
        "transactions that write one key each, seen by all reads in the same order",
        ("txn", "write"),
        ("stats", by_model("long-fork")),
        lambda load: Plans(_long_fork(load)),
        (),
        ("txn",),
    ),
    GenericWorkload(
        "queue",
        "unique elements leave the queue once each, and the last drain has the rest",
        ("enqueue", "dequeue", "drain"),
        ("stats", by_model("queue"), "drained"),
        lambda _: Plans(_queue),
        (Planned("drain", "queue", final=True),),
        ("enqueue",),
    ),
    GenericWorkload(
        "lock",
        "one process at a time holds a lock; after an unknown outcome the next lock is used",
        ("acquire", "release"),
        ("stats", by_model("lock", owned=True)),
        lambda _: _lock(),
        (),
        ("acquire",),
        around=_locks,
    ),
    GenericWorkload(
        "counter",
        "reads lie between the certain and the possible sum of all additions",
        ("add", "read"),
        ("stats", by_model("counter")),
        lambda _: Plans(_counter),
        _final_reads("counter"),
        ("add", "read"),
    ),
    GenericWorkload(
        "bank",
        "money moves between accounts, and every read has all of it",
        ("transfer", "read"),
        (
            "stats",
            by_model("bank", accounts=[*range(ACCOUNTS)], total_amount=ACCOUNTS * FIRST_BALANCE),
        ),
        lambda _: Plans(_bank),
        _final_reads("bank"),
        ("transfer", "read"),
    ),
)
GENERIC: Final[Mapping[str, GenericWorkload]] = {workload.name: workload for workload in _ALL}
"""The workloads of this module by name."""
