"""A node that is the whole cluster, with a data plane, driven by its inputs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import (
    ApiReply,
    ApiRequest,
    ApiResponseReceived,
    AppendLog,
    SendApi,
    Shutdown,
    Stopped,
    Tick,
    Trace,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft import poll, snapshots
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.effects import NodeEvent
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.headers import Batch

SELF = Endpoint("n1", 9093)
MS = 1000


class Alone:
    """A combined node whose requests reach itself; ``did`` are the effects of its data plane."""

    def __init__(self) -> None:
        config = NodeConfig(
            1,
            "cluster",
            b"d" * 16,
            {1: SELF},
            broker=True,
            broker_listener=Endpoint("n1", 9092),
            broker_incarnation=b"i" * 16,
            listener=SELF,
            data_plane=True,
        )
        self.now = 0
        self.did: list[Any] = []
        self.traces: list[Trace] = []
        self.replies: dict[int, Any] = {}
        self.appends = 0
        self.stopped = False
        self.left = -1
        self._asked: dict[int, tuple[str, int, SendApi | None]] = {}
        self._token = 0
        self.node = Node(config, Recovered(), 0, 0)
        self._carry_out(self.node.start(0, 0))

    def step(self, event: NodeEvent) -> None:
        effects = self.node.step(event, self.now, self.now // MS)
        self._assert_deadline()
        self._carry_out(effects)

    def _assert_deadline(self) -> None:
        """Compare the deadlines that are kept from step to step with those of all parts."""
        node, broker = self.node, self.node.broker
        assert broker is not None and broker.data is not None
        data = broker.data
        roles, due = node._roles_deadline(), node.deadline
        snapshot = node.loader.next_due(node.replica.now)
        assert roles == min(node.controller.deadline, broker.own_deadline, snapshot)
        assert data.deadline == min(data.core.deadline, data._proposals.deadline)
        whole = min(poll.deadline(node.replica), roles, data.deadline)
        assert due == (node._now if node._more else whole)

    def ask(self, api: str, body: Any, sent: SendApi | None = None) -> int:
        """Send a request to the controller's listener; return its token."""
        version = SUPPORTED[api][1]
        whole, _ = decode(f"{api}Request", version, encode(f"{api}Request", version, body))
        self._token += 1
        self._asked[self._token] = (api, version, sent)
        self.step(ApiRequest(self._token, api, version, whole))
        return self._token

    def until(self, condition: Callable[[], object], limit_ms: int = 60_000) -> None:
        """Let virtual time pass until ``condition`` holds."""
        while not condition():
            assert self.now < limit_ms * MS, "it never happens"
            self.now = max(self.now + 1, self.node.deadline)
            self.step(Tick())

    def _carry_out(self, effects: Any) -> None:
        """Carry out the effects of a step, which serves by nothing that it has to flush itself."""
        appended = [parse_header(each.batch) for each in effects if isinstance(each, AppendLog)]
        if appended:
            assert self.node.image.stable_offset < appended[0].base_offset
            self.appends += 1
        for effect in effects:
            match effect:
                case SendApi():
                    self.ask(effect.api, effect.body, effect)
                case ApiReply():
                    self._answered(effect)
                case Trace():
                    self.traces.append(effect)
                case Stopped():
                    self.stopped, self.left = True, effect.broker_epoch
                case _ if type(effect).__module__ == out.__name__:
                    self.did.append(effect)

    def _answered(self, reply: ApiReply) -> None:
        api, version, sent = self._asked.pop(reply.token)
        answer, _ = decode(f"{api}Response", version, encode(f"{api}Response", version, reply.body))
        if sent is None:
            self.replies[reply.token] = answer
        else:
            self.step(ApiResponseReceived(1, sent.correlation, answer))


def test_a_node_creates_a_log_and_acknowledges_a_record_until_it_is_shut_down() -> None:
    alone = Alone()
    alone.until(lambda: any(t.detail.get("state") == "running" for t in alone.traces))
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    request = {"topics": [topic | {"assignments": [], "configs": []}], "timeout_ms": 1000}
    token = alone.ask("CreateTopics", request | {"validate_only": False})
    alone.until(lambda: token in alone.replies and alone.did)
    (created,) = alone.replies[token]["topics"]
    key = (created["topic_id"], 0)
    assert alone.did == [out.OpenLog(key)]
    alone.step(come.LogOpened(key, 0, 0, (), (), 0))
    alone.step(come.FetchReceived(6, (come.FetchPart(key, 0, 1000),), max_wait_ms=1, min_bytes=1))
    alone.until(lambda: any(isinstance(each, out.ReplyFetch) for each in alone.did))
    alone.did.clear()
    batch = Batch(-1, 0, -1, -1, -1, -1, 0, 1, 71, 1, 0)
    alone.step(come.ProduceReceived(7, -1, 1000, ((key, batch),)))
    (append,) = [each for each in alone.did if isinstance(each, out.Append)]
    assert append.batch.base_offset == 0
    assert alone.did[-1] == out.ReplyProduce(7, (out.ProducedPart(key, 0, 0, 0),))
    alone.did.clear()
    alone.step(Shutdown())
    alone.until(lambda: alone.stopped)
    assert alone.did == [out.WriteHighWatermarks({key: 1})], "the watermark is kept, once"
    assert alone.left >= 0, "the next start need not check the logs"


def test_a_node_is_due_sooner_once_the_logs_of_its_broker_are_open() -> None:
    alone = Alone()
    alone.until(lambda: any(t.detail.get("state") == "starting" for t in alone.traces))
    broker, key = alone.node.broker, (b"t" * 16, 0)
    assert broker is not None and broker.data is not None
    broker.data._opening, broker._recovered = {key}, False
    broker._life._asked, broker._life._next = None, alone.now + 60_000 * MS
    alone.until(lambda: alone.node._roles_deadline() > alone.now + 100 * MS)
    before = alone.node._roles_deadline()
    alone.step(come.LogOpened(key, 0, 0, (), (), 0))
    assert alone.node._roles_deadline() < before


def test_an_event_of_records_postpones_no_timer_of_the_quorum() -> None:
    """The replica does what is due by it with its next step only."""
    alone = Alone()
    alone.until(lambda: any(t.detail.get("state") == "starting" for t in alone.traces))
    broker, key = alone.node.broker, (b"t" * 16, 0)
    assert broker is not None and broker.data is not None
    broker.data._opening = {key}
    due = alone.node.replica.probe_at = alone.now + 10
    alone.now += 20
    alone.step(come.LogOpened(key, 0, 0, (), (), 0))
    assert alone.node.deadline <= due
    alone.step(Tick())
    assert alone.node.deadline > due


class Ending:
    """A loader whose snapshot ends with the next piece; the next one may be due then."""

    def __init__(self, *, has_grown: bool) -> None:
        self._has_grown = has_grown
        self._pieces = [b"piece"]

    @property
    def generating(self) -> tuple[int, int] | None:
        return (5, 1) if self._pieces else None

    def due(self, now: int) -> tuple[int, int] | None:
        return (9, 1) if self._has_grown and not self._pieces else None

    def next_piece(self, records: int) -> bytes | None:
        return self._pieces.pop() if self._pieces else None


@pytest.mark.interpreted
@pytest.mark.parametrize("has_grown", [False, True])
def test_a_snapshot_may_be_due_as_soon_as_another_is_complete(
    has_grown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has grown meanwhile."""
    node = Alone().node
    finished: list[Any] = []
    monkeypatch.setattr(snapshots, "finish", lambda replica, *snapshot: finished.append(snapshot))
    monkeypatch.setattr(snapshots, "piece", lambda replica, *piece: None)
    loader: Any = Ending(has_grown=has_grown)
    node.loader, node._more = loader, False
    node._make_snapshot(7)
    assert len(finished) == 1
    assert node._more is has_grown


def test_a_node_that_has_opened_no_log_leaves_no_mark_of_a_clean_stop() -> None:
    """The process before may have been killed, and its logs are still to be checked."""
    alone = Alone()
    alone.until(lambda: any(t.detail.get("state") == "starting" for t in alone.traces))
    assert alone.node.broker is not None and alone.node.broker.epoch >= 0
    alone.step(Shutdown())
    alone.until(lambda: alone.stopped)
    assert alone.left == -1


def test_metadata_is_served_once_it_is_on_the_disk() -> None:
    """While the disk flushes, events of the data plane are handled by the metadata of before."""
    alone = Alone()
    alone.until(lambda: any(t.detail.get("state") == "running" for t in alone.traces))
    before = alone.appends
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    request = {"topics": [topic | {"assignments": [], "configs": []}], "timeout_ms": 1000}
    token = alone.ask("CreateTopics", request | {"validate_only": False})
    alone.until(lambda: alone.appends > before)
    assert token not in alone.replies
    assert not alone.did, "the log is not opened yet"
    alone.step(Tick())
    assert token in alone.replies
    assert alone.did
