"""Transactions: the anomalies of a history, and the consistency models that they refute."""

from kraftwreck.checkers.elle.check import check_transactions as check_transactions
