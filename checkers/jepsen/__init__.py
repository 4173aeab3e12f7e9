"""Jepsen's checkers that need no search: sets, queues, counters, banks, orders, Kafka.

Each module has one function ``check(events, options)`` that returns a
:class:`~checkers.jepsen.judgement.Judgement`: the result map under Jepsen's own names, and
the anomalies in words. A ``fail`` did not happen, an ``info`` may have.
"""
