"""Damaged frames over sockets, to three processes; ``tests/frames`` does it in one process."""

from __future__ import annotations

import contextlib
import random
import socket
from typing import Any

from kraftwreck.nodes.server.listeners import SERVED
from tests.frames.drawing import Drawing, Known
from tests.server.conftest import CLUSTER_ID

FRAMES = 500
SEED = 4


def test_frames_end_no_process(shared_brokers: Any) -> None:
    cluster = shared_brokers
    dice = random.Random(SEED)
    known = Known(CLUSTER_ID, cluster.nodes)
    drawing = Drawing(dice, known)
    controllers = dict.fromkeys(cluster.ports.values(), SERVED["CONTROLLER"])
    brokers = dict.fromkeys(cluster.broker_ports.values(), SERVED["PLAINTEXT"])
    doors = [(port, sorted(apis)) for port, apis in (controllers | brokers).items()]
    for number in range(FRAMES):
        if number % 100 == 0:
            leader = cluster.controller()
            known.leader, known.epoch = leader, cluster.traces(leader)[-1]["epoch"]
        port, apis = dice.choice(doors)
        frame = drawing.frame(apis)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as s:
            s.sendall(frame)
            s.shutdown(socket.SHUT_WR)
        dead = [node for node, process in cluster.processes.items() if process.poll() is not None]
        assert not dead, f"frame {number} of seed {SEED} ended {dead}: {frame[:2000].hex()}"
    assert cluster.create("after") == 0
    kinds = {line["kind"] for node in cluster.nodes for line in cluster.traces(node)}
    assert not kinds & {"fatal", "defect", "controller-error"}
    for node in cluster.ports:
        assert cluster.call(node, "ApiVersions", 3, {})["error_code"] == 0
    for node in cluster.broker_ports:
        assert cluster.ask_broker(node, "ApiVersions", 3, {})["error_code"] == 0
