"""Transactions' reads and writes of registers, as columns.

Source: Kingsbury, Alvaro (VLDB 2020), section 5.2; elle.rw-register. As there, only committed
transactions are indexed: the reads of indeterminate ones are unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftwreck.checkers.elle.grouping import Groups
from kraftwreck.checkers.elle.orders import Pairs, number_keys
from kraftwreck.checkers.elle.transactions import NULL, OK, READ, WRITE, Ints, Transactions


class Registers:
    """External reads and writes, with a number for every version.

    ``version`` gives, by micro-operation, the number of the (key, value) it read or wrote.
    The initial state of key number k is version k. ``emptied`` marks the keys that may have
    returned to it: nothing is inferred from that version. ``reads`` and ``writes`` are the
    external ones of committed transactions, ``all_writes`` of all that may have happened.
    """

    def __init__(self, transactions: Transactions) -> None:
        self.transactions = transactions
        mops = self.mops = transactions.mops
        self.keys, self.key = number_keys(mops.key)
        kind = transactions.events.kind[mops.event]
        self.ok = kind == OK
        self.possible = transactions.possible[mops.event]
        self.version = self._number_versions()
        self.versions = int(self.version.max(initial=len(self.keys) - 1)) + 1
        self.groups = Groups(mops.event, self.key)
        first = np.zeros(len(mops), dtype=bool)
        first[self.groups.firsts()] = True
        self.reads = np.flatnonzero(first & (mops.f == READ) & self.ok)
        last = np.zeros(len(mops), dtype=bool)
        last[self.groups.lasts_of(mops.f == WRITE)] = True
        self.writes = np.flatnonzero(last & self.ok)
        self.all_writes = np.flatnonzero(last & self.possible)
        # If null is written too, a null that was read need not be the initial state.
        self.emptied = np.zeros(self.versions, dtype=bool)
        self.emptied[self.key[(mops.f == WRITE) & (mops.kind == NULL) & self.possible]] = True

    def _number_versions(self) -> Ints:
        mops = self.mops
        version = self.key.copy()
        full = np.flatnonzero(mops.kind != NULL)
        value = mops.elements[mops.start[full]]
        pairs = Pairs(self.key[full], value)
        last = pairs.find(self.key[full], value)
        _, number = np.unique(last, return_inverse=True)
        version[full] = len(self.keys) + number
        return version

    def name(self, version: int) -> Any:
        """Return the value of a version; None for the initial state."""
        if version < len(self.keys):
            return None
        at = int(np.flatnonzero(self.version == version)[0])
        return self.transactions.name_value(self.mops.list_of(at)[0])

    def key_of(self, version: int) -> Any:
        """Return the key that a version is of."""
        at = int(np.flatnonzero(self.version == version)[0])
        return self.transactions.name_key(int(self.mops.key[at]))
