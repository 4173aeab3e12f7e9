"""Effects that the committed log must show once a request was answered with success, by API.

Each function returns why the log does not hold what the request asked for, or None if it does.
The batch that carries an operation out ends between ``low`` (exclusive) and ``high`` of its
exchange.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.kraft.controller_model.config_values import altered
from kraftwreck.checkers.kraft.controller_model.exchanges import Exchange
from kraftwreck.checkers.kraft.controller_model.metadata_model import TOPIC, Broker, Partition
from kraftwreck.checkers.kraft.controller_model.state import NEVER, State, StateHistory
from kraftwreck.nodes.protocol import errors

Body = dict[str, Any]
PREFERRED = 0


def created(
    history: StateHistory, exchange: Exchange, topic: Body, result: Body, defaults: Body
) -> tuple[str | None, State | None]:
    """CreateTopics: return also the state in which it was decided."""
    name, topic_id = topic["name"], bytes(result["topic_id"])
    changes = history.topics.get(name, NEVER).since(*exchange.span)
    found = max((end for end, _, after in changes if after == topic_id), default=None)
    if found is None:
        return f"no record creates topic {name} with id {topic_id.hex()}", None
    before, state = history.before(found), State(history, found)
    return _new_topic(topic, result, defaults, before, state), before


def _new_topic(
    topic: Body, result: Body, defaults: Body, before: State, state: State
) -> str | None:
    topic_id, name = bytes(result["topic_id"]), topic["name"]
    partitions = state.partitions(topic_id)
    placed = [list(partition.replicas) for partition in partitions]
    manual = sorted(topic["assignments"], key=lambda each: int(each["partition_index"]))
    if manual:
        wanted = [list(each["broker_ids"]) for each in manual]
        if placed != wanted:
            return f"replicas {placed} of {name}, wanted {wanted}"
    else:
        count = topic["num_partitions"] if topic["num_partitions"] != -1 else defaults["count"]
        factor = topic["replication_factor"]
        factor = defaults["factor"] if factor == -1 else factor
        if len(placed) != count or any(len(replicas) != factor for replicas in placed):
            return f"replicas {placed} of {name}, wanted {count} partitions of {factor}"
    told = (result["num_partitions"], result["replication_factor"])
    if told != (len(placed), len(placed[0]) if placed else 0):
        return f"the answer reports {told} for {name}, its replicas are {placed}"
    wanted_configs = {config["name"]: config["value"] for config in topic["configs"]}
    if state.configs(TOPIC, name) != wanted_configs:
        return f"configurations {state.configs(TOPIC, name)} of {name}, wanted {wanted_configs}"
    for number, partition in enumerate(partitions):
        wrong = new_partition(before, partition)
        if wrong is not None:
            return f"{name}-{number} begins {wrong}"
    return None


def new_partition(before: State, partition: Partition) -> str | None:
    """Check the state that a new partition begins with."""
    if not before.brokers():
        return None
    active = tuple(replica for replica in partition.replicas if before.is_active(replica))
    if partition.isr != active:
        return f"with ISR {partition.isr}, its active replicas are {active}"
    if partition.leader != active[0]:
        return f"led by {partition.leader}, not by the first of {active}"
    placed = dict(zip(partition.replicas, partition.directories, strict=False))
    for replica in partition.replicas if before.has_directories() else ():
        broker = before.broker(replica)
        known = () if broker is None or broker.cordoned else broker.directories
        if len(known) == 1 and placed.get(replica) != known[0]:
            return f"without the only directory of broker {replica}, {known[0].hex()}"
    rest = (partition.adding, partition.removing, partition.elr, partition.last_known_elr)
    if any(rest) or partition.recovery:
        return f"in the middle of a change: {partition}"
    return None


def deleted(history: StateHistory, exchange: Exchange, name: str, topic_id: bytes) -> str | None:
    """DeleteTopics."""
    for _, before, after in history.topics.get(name, NEVER).since(*exchange.span):
        if before == topic_id and after != topic_id:
            return None
    return f"no record removes topic {name} with id {topic_id.hex()}"


def grown(
    history: StateHistory, exchange: Exchange, topic: Body
) -> tuple[str | None, State | None, list[list[int]]]:
    """CreatePartitions: return also the state it was decided in, and the new replicas."""
    name, count = topic["name"], topic["count"]
    wrong = f"no record brings topic {name} to {count} partitions"
    topic_id = next(
        (
            i
            for i, v in history.ids.items()
            if name in list(v.among(*exchange.span)) and (i, count - 1) in history.partitions
        ),
        None,
    )
    if topic_id is None:
        return wrong, None, []
    for end, old, _ in history.partitions[topic_id, count - 1].since(*exchange.span):
        if old is not None:
            continue
        before, state = history.before(end), State(history, end)
        partitions = state.partitions(topic_id)
        new = partitions[len(before.partitions(topic_id)) :]
        placed = [list(partition.replicas) for partition in new]
        if len(partitions) != count:
            return f"{name} has {len(partitions)} partitions, wanted {count}", before, placed
        first = before.partitions(topic_id)[0]
        factor = len(first.replicas) - len(first.removing)
        manual = topic["assignments"]
        if manual is not None and placed != [list(each["broker_ids"]) for each in manual]:
            return f"replicas {placed} of {name}, wanted {manual}", before, placed
        if any(len(replicas) != factor for replicas in placed):
            return f"replicas {placed} of {name}, wanted {factor} each", before, placed
        faults = filter(None, (new_partition(before, partition) for partition in new))
        return next(faults, None), before, placed
    return wrong, None, []


def configured(
    history: StateHistory, exchange: Exchange, wanted: Body, incremental: bool
) -> str | None:
    """AlterConfigs and IncrementalAlterConfigs, one resource."""
    kind, resource = wanted["resource_type"], wanted["resource_name"]
    for config in wanted["configs"]:
        name = config["name"]
        operation = config["config_operation"] if incremental else 0
        versions = history.configs.get((kind, resource, name), NEVER)
        pairs = [(now, now) for now in versions.among(*exchange.span)]
        pairs += [(a, b) for _, a, b in versions.since(*exchange.span)]
        results = [(altered(kind, name, operation, config["value"], a), b) for a, b in pairs]
        if any(legal is None or value == after for (legal, value), after in results):
            continue
        held = [after for _, after in pairs]
        return f"{name} of {resource!r} is never set as requested ({config}), but to {held}"
    if not incremental:
        names = {config["name"] for config in wanted["configs"]}
        states = history.states(*exchange.span)
        if not any(set(state.configs(kind, resource)) == names for state in states):
            return f"{resource!r} never has exactly the configurations {sorted(names)}"
    return None


def _partitions(
    history: StateHistory, exchange: Exchange, name: str, number: int
) -> Iterable[tuple[Partition | None, Partition | None]]:
    """Yield (before, after) of each change of a partition, and (x, x) of each state it was in."""
    for topic_id in {i for i in history.topics[name].among(*exchange.span) if i}:
        versions = history.partitions.get((topic_id, number), NEVER)
        yield from ((a, b) for _, a, b in versions.since(*exchange.span))
        yield from ((p, p) for p in versions.among(*exchange.span))


def elected(
    history: StateHistory, exchange: Exchange, name: str, number: int, kind: int
) -> str | None:
    """ElectLeaders, one partition."""
    for _, after in _partitions(history, exchange, name, number):
        if after is not None and (
            after.leader == after.replicas[0] if kind == PREFERRED else after.leader >= 0
        ):
            return None
    return f"{name}-{number} never gets the leader that the request asked for"


def reassigned(
    history: StateHistory, exchange: Exchange, name: str, number: int, target: list[int] | None
) -> str | None:
    """AlterPartitionReassignments, one partition."""
    for before, after in _partitions(history, exchange, name, number):
        if before is None or after is None:
            continue
        if target is None:
            rest = tuple(r for r in before.replicas if r not in before.adding)
            ended = not after.adding + after.removing and not set(after.isr) - set(rest)
            if before.adding + before.removing and after.replicas == rest and ended:
                return None
            continue
        if list(after.replicas) == target and not after.adding + after.removing:
            return None
        leaving = set(before.replicas) - set(target)
        if (
            list(after.replicas[: len(target)]) == target
            and set(after.replicas[len(target) :]) == leaving == set(after.removing)
            and set(after.adding) == set(target) - set(before.replicas)
        ):
            return None
    return f"{name}-{number} is never being reassigned to {target}"


def proposed(
    history: StateHistory, exchange: Exchange, topic_id: bytes, proposal: Body, answer: Body
) -> str | None:
    """AlterPartition, one partition.

    On success the answer reports the resulting state, in which the proposer still leads. The error
    NEW_LEADER_ELECTED means only that the proposer no longer leads.
    """
    sender = exchange.request["broker_id"]
    versions = history.partitions.get((topic_id, answer["partition_index"]), NEVER)
    if answer["error_code"] == errors.NEW_LEADER_ELECTED:
        if any(p is None or p.leader != sender for p in versions.among(*exchange.span)):
            return None
        return f"broker {sender} gets NEW_LEADER_ELECTED although it still leads"
    if answer["leader_id"] != sender:
        return f"broker {sender} gets no error although {answer['leader_id']} leads by now"
    base, told = proposal["partition_epoch"], answer["partition_epoch"]
    if told not in (base, base + 1):
        return f"an ISR proposed at partition epoch {base} becomes partition epoch {told}"
    for _, _, after in versions.changes():
        if after is not None and after.partition_epoch == answer["partition_epoch"]:
            says = (answer["leader_id"], answer["leader_epoch"], answer["leader_recovery_state"])
            is_ = (after.leader, after.leader_epoch, after.recovery)
            if says != is_ or sorted(answer["isr"]) != sorted(after.isr):
                return f"the answer reports {says} and ISR {answer['isr']}, the log {after}"
            return None
    return None


def registered(history: StateHistory, exchange: Exchange, body: Body, epoch: int) -> str | None:
    """BrokerRegistration."""
    versions = history.brokers.get(body["broker_id"], NEVER)
    wanted = (
        bytes(body["incarnation_id"]),
        epoch,
        body["rack"],
        sorted(
            (e["name"], e["host"], e["port"], e["security_protocol"]) for e in body["listeners"]
        ),
        sorted(
            (f["name"], f["min_supported_version"], f["max_supported_version"])
            for f in body["features"]
        ),
    )
    directories = sorted(bytes(each) for each in body["log_dirs"])
    kept = [directories if State(history, end).has_directories() else [] for end in exchange.span]
    for broker in versions.among(*exchange.span):
        if broker is None:
            continue
        has = (
            broker.incarnation,
            broker.epoch,
            broker.rack,
            list(broker.endpoints),
            list(broker.features),
        )
        if has == wanted and list(broker.directories) in kept:
            return None
    return f"broker {body['broker_id']} epoch {epoch} is never registered as it requested"


def heartbeat(history: StateHistory, exchange: Exchange, answer: Body) -> str | None:
    """BrokerHeartbeat: the answer reports whether the broker is fenced and caught up (KIP-631)."""
    body = exchange.request
    versions = history.brokers.get(body["broker_id"], NEVER)
    found = [
        broker
        for broker in versions.among(*exchange.span)
        if broker is not None and broker.epoch == body["broker_epoch"]
    ]
    fences, stops = body["want_fence"], body["want_shut_down"]
    told, go = answer["is_fenced"], answer["should_shut_down"]
    who = f"broker {body['broker_id']} epoch {body['broker_epoch']}"
    if not found:
        return None
    if told not in {broker.fenced for broker in found}:
        return f"{who} gets fenced={told}, which it never is meanwhile"
    if answer["is_caught_up"] and body["current_metadata_offset"] < body["broker_epoch"]:
        return f"{who} counts as caught up at offset {body['current_metadata_offset']}"
    if go and not any(broker.fenced for broker in found):
        return f"{who} may shut down without being fenced"
    if any(broker.stopping for broker in found):
        return None
    return _asked(who, found, fences, stops, answer)


def _asked(who: str, found: list[Broker], fences: bool, stops: bool, answer: Body) -> str | None:
    """A broker outside of a controlled shutdown gets the state that its heartbeat requests."""
    told, go = answer["is_fenced"], answer["should_shut_down"]
    if go and not stops:
        return f"{who} gets should_shut_down without requesting it"
    if stops:
        if all(broker.fenced for broker in found) and not go and len(found) == 1:
            return f"{who} is fenced and requests to shut down, and may not"
        return None
    if fences and not told:
        return f"{who} requests to be fenced and stays unfenced"
    if not fences and told and answer["is_caught_up"]:
        return f"{who} requests to be unfenced, is caught up, and stays fenced"
    if not fences and not told and not answer["is_caught_up"] and all(b.fenced for b in found):
        return f"{who} is unfenced although it is not caught up"
    return None


def block(history: StateHistory, exchange: Exchange, answer: Body) -> str | None:
    """AllocateProducerIds: the log must assign the whole block to this request."""
    start, length = answer["producer_id_start"], answer["producer_id_len"]
    for _, before, after in history.producers.since(*exchange.span):
        if (before or 0, after) == (start, start + length):
            return None
    return f"no record allocates the block of {length} producer ids from {start}"
