"""Indeterminate transactions that are known to have committed.

A client that got ``info``, or no answer, may have read something in a transaction that aborted
later. Such reads prove nothing. They count once another transaction, whose reads count, has
read one of its appends: then it committed, or that read is an aborted read.
"""

from __future__ import annotations

import numpy as np

from kraftwreck.checkers.elle.orders import Pairs, number_keys
from kraftwreck.checkers.elle.transactions import LIST, OK, READ, WRITE, Bools, Transactions, runs


def doubtful_reads(transactions: Transactions) -> Bools:
    """Mark, by event, the indeterminate transactions that report reads and may have aborted."""
    mops, kind = transactions.mops, transactions.events.kind
    committed = kind == OK
    doubtful = np.zeros(len(kind), dtype=bool)
    reads = (mops.f == READ) & (mops.kind == LIST)
    unsure = (transactions.possible & ~committed)[mops.event]
    doubtful[mops.event[reads & unsure]] = True
    if not doubtful.any():
        return doubtful
    key = number_keys(mops.key)[1]
    appends = np.flatnonzero((mops.f == WRITE) & doubtful[mops.event])
    pairs = Pairs(key[appends], mops.elements[mops.start[appends]])
    new = committed
    while new.any():
        some = np.flatnonzero(reads & new[mops.event])
        size = mops.count[some]
        element = mops.elements[runs(mops.start[some], size)]
        found = pairs.find(np.repeat(key[some], size), element)
        seen = np.zeros(len(kind), dtype=bool)
        seen[mops.event[appends[found[found >= 0]]]] = True
        new = doubtful & seen
        doubtful &= ~seen
    return doubtful
