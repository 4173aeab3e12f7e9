"""jepsen.tests.kafka: what a log that is sent to and polled must not do.

Operations: ``assign`` and ``subscribe`` (value: the keys), ``poll``, ``send`` and ``txn``
(value: micro-operations ``["send", k, v]``, completed ``["send", k, [offset, v]]``, and
``["poll"]``, completed ``["poll", {k: [[offset, v], …]}]``).
"""
