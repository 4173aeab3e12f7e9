"""The work of all clients in a run over sockets, and the judgement of their answers.

Requests have all versions that brokers serve. Each record has a number of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

from kraftwreck.nodes.broker.apis import RECORDS
from kraftwreck.nodes.log.batch import decode_batch, encode_batch, parse_header, verify_crc
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.systems.kraft.sockets.clients import Body, Client, LostError
from kraftwreck.systems.kraft.sockets.machines import IDS, WALL_S, Machines, broker_of
from kraftwreck.systems.kraft.sockets.network import Network

TOPIC: Final = "records"
PARTITIONS: Final = 2
ALL: Final = -1
"""acks=all."""
WAIT_S: Final = 3.0
"""The time-out of requests that may wait."""
SLACK_S: Final = 5.0
"""How long after its time-out a request may be answered, however slow the network is."""
STARTS_S: Final = 20.0
"""The same for a process that has not yet described the cluster: a broker starts behind faults."""
BY_ID: Final = {"Produce": 13, "Fetch": 13}
"""The first versions that name topics by id."""
SESSIONS: Final = 7
"""The first version of Fetch that has sessions."""
MOST_TURNS: Final = PARTITIONS
"""Answers of a session in a row that may leave out a partition whose records wait."""
SMALL, LARGE = 200, 300_000
NEVER: Final = 1 << 30
UNKNOWN_TOPIC: Final[Body] = {
    "topic": "unknown",
    "topic_id": b"\xfe" * 16,
    "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
}
"""A topic in a Fetch that no broker knows. Each answer of the session must say so."""
_BATCH: Final = 12


class Traffic:
    """The clients of one run. ``wrong`` gets what no broker may do, one line each."""

    def __init__(self, network: Network, machines: Machines, wrong: Callable[[str], None]) -> None:
        self.network = network
        self.machines = machines
        self.wrong = wrong
        self.topic_id = bytes(16)
        self.until = 0.0
        """When clients begin nothing new."""
        self.acknowledged: dict[int, tuple[int, int]] = {}
        """By number of a record: partition and offset, of those that all replicas have."""
        self.read: dict[tuple[int, int], int] = {}
        """By partition and offset: the number of the record that a consumer has read there."""
        self._numbers = 0
        self._served: set[tuple[int, int]] = set()
        """By node and start: the processes that have described the cluster."""
        self._dice = network.dice

    # --- requests -----------------------------------------------------------------------------

    def begin(self, client: Client, api: str, body: Body) -> asyncio.Future[Body]:
        """Send a request at a version drawn."""
        return client.send(api, self.version(api), body)

    async def answered(
        self, client: Client, api: str, answer: asyncio.Future[Body], wait_s: float = 0.0
    ) -> Body:
        """Wait for an answer as long as it may take. Raises LostError."""
        limit_s = wait_s + (SLACK_S if client.process in self._served else STARTS_S)
        try:
            body = await asyncio.wait_for(answer, limit_s)
            if api == "Metadata":
                self._served.add(client.process)
            return body
        except TimeoutError:
            node_id, _ = client.process
            self.wrong(f"node {node_id} has not answered a {api} within {limit_s:.0f} s")
            client.close()
            raise LostError("no answer") from None
        except LostError:
            if client.wrong is not None:
                self.wrong(client.wrong)
                client.wrong = None
            raise

    def version(self, api: str) -> int:
        """Draw a version of ``api`` that brokers serve."""
        low, high = RECORDS.get(api) or SUPPORTED[api]
        return self._dice.randint(low, high)

    async def connect(self, node_id: int | None = None) -> Client:
        """Return a connection to a broker, one that runs if none is named. Raises LostError."""
        node_id = node_id or self._dice.choice(sorted(self.machines.running) or list(IDS))
        client = await Client.connect(self.network, broker_of(node_id))
        client.process = node_id, self.machines.starts[node_id]
        return client

    async def metadata(self, client: Client) -> Body:
        """Return what a broker knows of the cluster. Raises LostError."""
        answer = client.send("Metadata", 12, {"topics": None})
        return await self.answered(client, "Metadata", answer)

    async def leaders(self) -> dict[int, int]:
        """Return the leader of each partition that has one. Raises LostError."""
        client = await self.connect()
        try:
            body = await self.metadata(client)
        finally:
            client.close()
        for topic in body["topics"]:
            if topic["name"] == TOPIC:
                self.topic_id = topic["topic_id"]
                return {
                    part["partition_index"]: part["leader_id"]
                    for part in topic["partitions"]
                    if part["leader_id"] >= 0
                }
        return {}

    async def at_leader(self, partition: int) -> Client:
        """Return a connection to the leader of a partition. Raises LostError, also if there is
        none."""
        leader = (await self.leaders()).get(partition)
        if leader is None:
            raise LostError(f"partition {partition} has no leader")
        return await self.connect(leader)

    @property
    def runs(self) -> bool:
        """Whether clients may begin anything new."""
        return self.network.time() < self.until

    async def rest(self, most_s: float) -> None:
        """Do nothing for a while."""
        await asyncio.sleep(self._dice.random() * most_s)

    # --- producers ----------------------------------------------------------------------------

    async def produce(self) -> None:
        """Send records to one partition after the other, several requests at a time."""
        while self.runs:
            partition = self._dice.randrange(PARTITIONS)
            try:
                leader = (await self.leaders()).get(partition)
                client = await self.connect(leader)
            except LostError:
                await self.rest(0.5)
                continue
            try:
                while self.runs and await self._burst(client, partition):
                    await self.rest(0.3)
            except LostError:
                await self.rest(0.2)
            finally:
                client.close()

    async def _burst(self, client: Client, partition: int) -> bool:
        """Send a few requests at once; return whether all of them succeeded."""
        sent = []
        for _ in range(self._dice.randint(1, 5)):
            acks = self._dice.choice((0, 1, ALL, ALL))
            number, version, body = self.batch(partition, acks)
            if acks == 0:
                client.send_unanswered("Produce", version, body)
            else:
                sent.append((number, acks, client.send("Produce", version, body)))
        last, succeeded = -1, True
        for number, acks, answer in sent:
            offset = await self.stored(client, partition, number, acks, answer)
            if offset is not None and offset <= last:
                self.wrong(f"record {number} is at {offset}, and one sent before it is at {last}")
            last = offset if offset is not None else last
            succeeded = succeeded and offset is not None
        return succeeded

    async def stored(
        self, client: Client, partition: int, number: int, acks: int, answer: asyncio.Future[Body]
    ) -> int | None:
        """Return the offset of a record, None if it was refused. Raises LostError."""
        body = await self.answered(client, "Produce", answer, WAIT_S)
        [[part]] = [topic["partition_responses"] for topic in body["responses"]]
        if part["error_code"] != errors.NONE:
            return None
        offset: int = part["base_offset"]
        if acks == ALL:
            self.acknowledged[number] = partition, offset
        return offset

    def batch(self, partition: int, acks: int) -> tuple[int, int, Body]:
        """Return the number of a new record, and a request for it with its version."""
        self._numbers += 1
        size = LARGE if self._dice.random() < 0.08 else SMALL
        value = b"%d " % self._numbers + b"x" * self._dice.randrange(size)
        now_ms = WALL_S * 1000 + self.network.micros() // 1000
        records = encode_batch(0, -1, now_ms, [(None, value)], False)
        topic = {
            "name": TOPIC,
            "topic_id": self.topic_id,
            "partition_data": [{"index": partition, "records": records}],
        }
        body = {
            "transactional_id": None,
            "acks": acks,
            "timeout_ms": round(WAIT_S * 1000),
            "topic_data": [topic],
        }
        return self._numbers, self.version("Produce"), body

    # --- consumers ----------------------------------------------------------------------------

    async def consume(self) -> None:
        """Read partitions from their beginnings, in sessions, and now and then slowly."""
        positions = dict.fromkeys(range(PARTITIONS), 0)
        while self.runs:
            try:
                leaders = await self.leaders()
                if not leaders:
                    await self.rest(0.5)
                    continue
                leader = self._dice.choice(sorted(set(leaders.values())))
                led = [each for each, at in leaders.items() if at == leader]
                client = await self.connect(leader)
            except LostError:
                await self.rest(0.5)
                continue
            try:
                await self._poll(client, led, positions)
            except LostError:
                await self.rest(0.2)
            finally:
                client.close()

    async def _poll(self, client: Client, led: list[int], positions: dict[int, int]) -> None:
        """Fetch in one session until an error, or for a while. Raises LostError."""
        version = self.version("Fetch")
        session, epoch, known = 0, 0 if version >= SESSIONS else -1, dict[int, int]()
        ends, waits = dict.fromkeys(led, 0), dict.fromkeys(led, 0)
        strange = self._dice.choice((0, 2, *[NEVER] * 6))
        for turn in range(self._dice.randint(5, 40)):
            if not self.runs:
                return
            named = {
                each: positions[each]
                for each in led
                if epoch <= 0 or known.get(each) != positions[each]
            }
            most = self._dice.choice((1, 500, 200_000, 2_000_000))
            request = self.fetch(named, most, session, epoch)
            if turn == strange or (turn > strange and epoch == -1):
                request["topics"] = [*request["topics"], UNKNOWN_TOPIC]
            answer = client.send("Fetch", version, request)
            known.update(named)
            if self._dice.random() < 0.1:
                client.pause()
                await self.rest(2.0)
                client.resume()
            body = await self.answered(client, "Fetch", answer, WAIT_S)
            if body.get("error_code", errors.NONE) != errors.NONE:
                return
            if self._leaves_out_the_unknown(body) and turn >= strange:
                self.wrong(f"answer {turn} to a Fetch {version} leaves an unknown topic out")
            served = self._took(body, positions, ends)
            if served is None:
                return
            if version >= SESSIONS:
                session, epoch = body["session_id"], epoch + 1
                self._take_turns(served, positions, ends, waits)
            if epoch > 0 and session == 0:
                return

    def _leaves_out_the_unknown(self, body: Body) -> bool:
        """Remove the topic that no broker knows from an answer; return whether it was not there."""
        name, topic_id = UNKNOWN_TOPIC["topic"], UNKNOWN_TOPIC["topic_id"]
        topics = body["responses"]
        body["responses"] = [
            each for each in topics if each["topic"] != name and each["topic_id"] != topic_id
        ]
        return len(body["responses"]) == len(topics)

    def _take_turns(
        self,
        served: set[int],
        positions: dict[int, int],
        ends: dict[int, int],
        waits: dict[int, int],
    ) -> None:
        """Judge an answer of a session with records of ``served``: partitions take turns.

        ``waits`` has how many answers in a row had records of the others only.
        """
        for number in waits:
            waited = number not in served and bool(served) and ends[number] > positions[number]
            waits[number] = waits[number] + 1 if waited else 0
            if waits[number] > MOST_TURNS:
                self.wrong(f"{waits[number]} answers of a session have left partition {number} out")

    def _took(self, body: Body, positions: dict[int, int], ends: dict[int, int]) -> set[int] | None:
        """Take in the records of an answer; return their partitions, None for an error.

        ``ends`` are the high watermarks that answers have named.
        """
        served = set[int]()
        for topic in body["responses"]:
            for part in topic["partitions"]:
                number = part["partition_index"]
                if part["error_code"] != errors.NONE:
                    return None
                ends[number] = part["high_watermark"]
                for offset, record in self.records(part["records"] or b""):
                    if offset != positions[number]:
                        self.wrong(f"a fetch at {positions[number]} got offset {offset}")
                        return None
                    known = self.read.setdefault((number, offset), record)
                    if known != record:
                        self.wrong(f"offset {offset} was record {known}, and then {record}")
                    positions[number] = offset + 1
                    served.add(number)
        return served

    def records(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield (offset, number) of the records in whole batches of an answer."""
        position = 0
        while len(data) - position >= _BATCH:
            size = int.from_bytes(data[position + 8 : position + _BATCH], "big") + _BATCH
            if position + size > len(data):
                return
            batch = data[position : position + size]
            position += size
            if not verify_crc(batch):
                self.wrong(f"the batch at {parse_header(batch).base_offset} has a wrong checksum")
                return
            _, found = decode_batch(batch)
            for offset, _, value in found:
                yield offset, int((value or b"-1").split()[0])

    def fetch(self, named: dict[int, int], most: int, session: int, epoch: int) -> Body:
        """Return a request for the partitions ``named``, each from its offset on."""
        parts = [
            {
                "partition": number,
                "current_leader_epoch": -1,
                "fetch_offset": offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": most,
            }
            for number, offset in named.items()
        ]
        topics = [{"topic": TOPIC, "topic_id": self.topic_id, "partitions": parts}]
        return {
            "replica_id": -1,
            "max_wait_ms": self._dice.choice((0, 100, 500)),
            "min_bytes": 1,
            "max_bytes": most,
            "isolation_level": 0,
            "session_id": session,
            "session_epoch": epoch,
            "topics": topics if parts else [],
            "forgotten_topics_data": [],
            "rack_id": "",
        }

    # --- others -------------------------------------------------------------------------------

    async def pipeline(self) -> None:
        """Send many requests at once, often a Fetch among them; and one in small pieces."""
        while self.runs:
            await self.rest(1.0)
            try:
                client = await self.connect()
            except LostError:
                continue
            try:
                await self._pipelined(client)
                if self._dice.random() < 0.3:
                    drops = client.send_in_drops(self.network, "Metadata", 9, {"topics": None})
                    await asyncio.wait_for(drops, 2 * SLACK_S)
            except LostError:
                pass
            except TimeoutError:
                self.wrong("a Metadata in small pieces was not answered")
            finally:
                client.close()

    async def _pipelined(self, client: Client) -> None:
        sent = []
        count = self._dice.choice((3, 30, 300))
        place = self._dice.randrange(2 * count)
        for number in range(count):
            api = self._dice.choice(("ApiVersions", "ListOffsets", "Metadata"))
            sent.append((api, self.begin(client, api, self._question(api))))
            if number == place:
                fetch = self.fetch({0: 0}, LARGE, 0, -1)
                sent.append(("Fetch", self.begin(client, "Fetch", fetch)))
        for api, answer in sent:
            await self.answered(client, api, answer, WAIT_S)

    def _question(self, api: str) -> Body:
        if api == "Metadata":
            name = {"name": TOPIC, "topic_id": self.topic_id}
            return {"topics": [name], "allow_auto_topic_creation": False}
        if api == "ListOffsets":
            part = {"partition_index": 0, "timestamp": self._dice.choice((-1, -2))}
            topics = [{"name": TOPIC, "partitions": [part]}]
            return {"replica_id": -1, "isolation_level": 0, "timeout_ms": 1000, "topics": topics}
        return {"client_software_name": "socket-client", "client_software_version": "1"}

    async def create(self) -> None:
        """Create topics through any broker, each by one request."""
        number = 0
        while self.runs:
            await self.rest(0.4)
            number += 1
            try:
                client = await self.connect()
            except LostError:
                continue
            try:
                code = await self.created(client, f"other-{number}", 1, 1)
            except LostError:
                continue
            finally:
                client.close()
            if code == errors.TOPIC_ALREADY_EXISTS:
                self.wrong(f"topic other-{number} was created twice for one request")

    async def created(self, client: Client, name: str, partitions: int, replicas: int) -> int:
        """Return the error code of a request for a topic. Raises LostError."""
        topic: dict[str, Any] = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replicas,
            "assignments": [],
            "configs": [],
        }
        body = {"topics": [topic], "timeout_ms": round(WAIT_S * 1000), "validate_only": False}
        answer = client.send("CreateTopics", 7, body)
        created = await self.answered(client, "CreateTopics", answer, WAIT_S)
        code: int = created["topics"][0]["error_code"]
        return code
