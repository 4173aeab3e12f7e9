"""Requests of every kind, most of them unusual: does every answer agree with the log?

The cluster and its phantom brokers are those of the workload ``partitions``, with fewer changes;
most operations are probes (:mod:`~systems.kraft.workloads.probes`). The invariants C15 and C18 to
C21 judge the answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from kraftwreck.systems.kraft.workloads.partitions import PartitionsWorkload


class RequestsWorkload(PartitionsWorkload):
    """As ``partitions``, with other shares of operations."""

    name = "requests"
    about = "valid and malformed requests of every kind"
    of_brokers: Mapping[str, int] = {"beat": 38, "isr": 6, "twin": 1, "restart": 1, "story": 5}
    of_operators: Mapping[str, int] = {
        "create": 7,
        "delete": 2,
        "read": 5,
        "describe": 3,
        "elect": 2,
        "reassign": 7,
        "cancel": 2,
        "configure": 2,
        "ask": 70,
    }


WORKLOAD = RequestsWorkload()
