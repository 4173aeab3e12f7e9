"""Transactions: which anomalies a history holds, and which consistency models it refutes."""

from checkers.elle.check import check_transactions as check_transactions
