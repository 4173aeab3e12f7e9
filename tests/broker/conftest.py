"""A broker whose controller is the test, and an image made of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.broker.broker import Broker
from kraftwreck.nodes.consensus.effects import ApiReply, ApiRequest, ApiResponseReceived, SendApi
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.replication.effects import Effect
from kraftwreck.nodes.replication.events import FromShell

Body = dict[str, Any]
MS = 1000


class FakeQuorum:
    """A quorum whose leader the test chooses."""

    def __init__(self) -> None:
        self.cluster_id = "cluster"
        self.leader_id = 1
        self.leader_endpoint: Endpoint | None = Endpoint("c1", 9093)
        self.kraft_version = 0

    def led_by(self, node_id: int) -> None:
        self.leader_id = node_id
        self.leader_endpoint = Endpoint(f"c{node_id}", 9093) if node_id >= 0 else None


class Rig:
    """One broker, its clock, and everything it said."""

    def __init__(self, **settings: Any) -> None:
        values: dict[str, Any] = {
            "node_id": 4,
            "cluster_id": "cluster",
            "directory_id": b"d" * 16,
            "voters": {},
            "controller": False,
            "broker": True,
            "broker_listener": Endpoint("b4", 9092),
            "broker_incarnation": b"i" * 16,
            "seed": 7,
        }
        self.config = NodeConfig(**(values | settings))
        self.image = MetadataImage(indexed=False)
        self.quorum = FakeQuorum()
        self.broker = Broker(self.config, self.image, self.quorum)
        self.now = 1_000_000
        self.sent: list[SendApi] = []
        self.replies: dict[int, Body] = {}
        self.answered: list[SendApi] = []
        self.did: list[Effect] = []
        self._token = 0
        self._versions: dict[int, tuple[str, int]] = {}

    # --- time and the controller --------------------------------------------------------

    def tick(self, milliseconds: float = 0) -> None:
        self.now += round(milliseconds * MS)
        self.broker.tick(self.now, self.now // MS)
        self._collect()

    def until_due(self) -> int:
        """Let time pass until the broker wants to be woken; return milliseconds."""
        waited = max(0, self.broker.deadline - self.now)
        self.now += waited
        self.tick()
        return waited // MS

    def _collect(self) -> None:
        for effect in self.broker.take_effects():
            if isinstance(effect, SendApi):
                self.sent.append(effect)
            elif not isinstance(effect, ApiReply):
                self.did.append(effect)
            else:
                api, version = self._versions[effect.token]
                data = encode(f"{api}Response", version, effect.body)
                self.replies[effect.token] = decode(f"{api}Response", version, data)[0]

    def last(self, api: str) -> SendApi:
        """Return the request said last, which must be of ``api`` and fit on the wire."""
        request = self.sent[-1]
        assert request.api == api, request
        low, high = SUPPORTED[api]
        for version in range(low, high + 1):
            encode(f"{api}Request", version, request.body)
        return request

    def answer(self, body: Body | None, *, sent: bool = True, to: SendApi | None = None) -> bool:
        """Answer the request said last, or ``to``."""
        request = to or self.sent[-1]
        event = ApiResponseReceived(request.destination, request.correlation, body, sent)
        mine = self.broker.response(event, self.now)
        self.tick()
        return mine

    def beat(self, **answer: bool) -> SendApi:
        """Let the next heartbeat happen, and answer it."""
        while (request := self._open_heartbeat()) is None:
            self.until_due()
        self.answered.append(request)
        told = {"is_caught_up": False, "is_fenced": True, "should_shut_down": False}
        assert self.answer({"error_code": 0, **told, **answer}, to=request)
        return request

    def _open_heartbeat(self) -> SendApi | None:
        beats = [r for r in self.sent if r.api == "BrokerHeartbeat" and r not in self.answered]
        return beats[-1] if beats else None

    def register(self, epoch: int = 30) -> SendApi:
        self.tick()
        request = self.last("BrokerRegistration")
        self.answer({"error_code": 0, "broker_epoch": epoch})
        return request

    def run(self, epoch: int = 30) -> None:
        """Bring the broker to where it is running."""
        self.register(epoch)
        self.broker.published(epoch, 1, self.now)
        self.beat(is_caught_up=True)
        self.beat(is_caught_up=True, is_fenced=False)
        assert self.broker.state.value == "running"

    # --- clients ------------------------------------------------------------------------

    def ask(self, api: str, version: int, body: Body, client: str = "10.0.0.9") -> int:
        """Send a request as a client does; return its token."""
        whole, _ = decode(f"{api}Request", version, encode(f"{api}Request", version, body))
        self._token += 1
        self._versions[self._token] = (api, version)
        event = ApiRequest(self._token, api, version, whole, "PLAINTEXT", client)
        self.broker.handle(event, self.now, self.now // MS)
        self.tick()
        return self._token

    def call(self, api: str, version: int, body: Body) -> Body:
        """Send a request that is answered at once."""
        return self.replies[self.ask(api, version, body)]

    def data(self, event: FromShell) -> list[Effect]:
        """Let the data plane handle an event; return what follows for the shell."""
        self.did.clear()
        self.broker.handle_data(event, self.now, self.now // MS)
        self._collect()
        return list(self.did)

    def publish(self) -> list[Effect]:
        """Let the broker publish what was committed; return what follows for the shell."""
        self.did.clear()
        self.broker.published(self.image.last_offset, 1, self.now)
        self.tick()
        return list(self.did)

    # --- the image ----------------------------------------------------------------------

    def commit(self, *records: tuple[str, Body]) -> None:
        offset = self.image.last_offset + len(records)
        self.image.commit(offset, 1, list(records))

    def set_level(self, level: int) -> None:
        """Finalize a level of metadata.version."""
        fields = {"name": "metadata.version", "feature_level": level}
        self.commit(("FeatureLevelRecord", fields))

    def add_broker(
        self,
        broker_id: int,
        *,
        fenced: bool = False,
        rack: str | None = None,
        epoch: int | None = None,
        log_dirs: tuple[bytes, ...] = (),
    ) -> None:
        listener = {"name": "PLAINTEXT", "host": f"b{broker_id}", "port": 9092}
        fields = {
            "broker_id": broker_id,
            "incarnation_id": bytes(16),
            "broker_epoch": broker_id if epoch is None else epoch,
            "end_points": [listener | {"security_protocol": 0}],
            "features": [],
            "rack": rack,
            "fenced": fenced,
            "in_controlled_shutdown": False,
            "log_dirs": list(log_dirs),
            "is_migrating_zk_broker": False,
            "cordoned_log_dirs": None,
        }
        self.commit(("RegisterBrokerRecord", fields))

    def add_topic(self, name: str, *leaders: int, **changes: Any) -> bytes:
        """Add a topic with a partition for each leader, all on brokers 4 to 6."""
        topic_id = name.encode().ljust(16, b"\0")[:16]
        records: list[tuple[str, Body]] = [("TopicRecord", {"name": name, "topic_id": topic_id})]
        for number, leader in enumerate(leaders):
            fields = {
                "partition_id": number,
                "topic_id": topic_id,
                "replicas": [4, 5, 6],
                "isr": [4, 5],
                "removing_replicas": [],
                "adding_replicas": [],
                "leader": leader,
                "leader_recovery_state": 0,
                "leader_epoch": 8,
                "partition_epoch": 3,
                "directories": [],
                "eligible_leader_replicas": None,
                "last_known_elr": None,
            }
            records.append(("PartitionRecord", fields | changes))
        self.commit(*records)
        return topic_id


@pytest.fixture
def make_rig() -> Callable[..., Any]:
    return Rig


@pytest.fixture
def rig() -> Any:
    """A broker that has just been started."""
    return Rig()


@pytest.fixture
def running() -> Any:
    """A running broker, number 4, in a cluster with brokers 5 and 6, where 6 is fenced."""
    rig = Rig()
    for broker_id in (4, 5, 6):
        rig.add_broker(broker_id, fenced=broker_id == 6, rack=f"r{broker_id}")
    rig.run()
    return rig
