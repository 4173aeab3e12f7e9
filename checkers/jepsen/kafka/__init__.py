"""jepsen.tests.kafka: faults of a log that clients send to and poll.

Operations: ``assign`` and ``subscribe`` (value: the keys), ``poll``, ``send`` and ``txn``
(value: micro-operations ``["send", k, v]``, completed ``["send", k, [offset, v]]``, and
``["poll"]``, completed ``["poll", {k: [[offset, v], …]}]``).
"""
