"""Registers whose written values are distinct, decided by sorting instead of searching.

Source: Gibbons and Korach, "Testing shared memories" (SIAM J. Comput. 26(4), 1997); zones as
in Golab, Li and Shah, "Analyzing consistency properties for fun and profit" (PODC 2011);
compare-and-set chains and indeterminate operations as described in
:mod:`checkers.linearizability.zones.decide`.
"""
