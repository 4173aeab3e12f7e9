"""Answers held against the committed log: C2 BrokerEpochFencing, C8 AlterPartitionCAS, C15
ReplicaPlacement, C18 RefusalsAreTrue, C19 DoneAsAsked and C20 ReadsAreCommitted, by captured
messages.

Only for runs whose whole committed log is known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kraftwreck.checkers.kraft.controller_model import effects, placement, reads, refusals
from kraftwreck.checkers.kraft.controller_model.departures import Departures
from kraftwreck.checkers.kraft.controller_model.exchanges import Commits, Exchange
from kraftwreck.checkers.kraft.controller_model.refusals import Allowed
from kraftwreck.checkers.kraft.controller_model.state import State, StateHistory
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import NO_LAG, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.sessions import session_ns
from kraftwreck.checkers.kraft.limits import DEPARTURE
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.checkers.suspicion import Limit, in_virtual_time
from kraftwreck.nodes.protocol import errors

UNTOLD = frozenset(
    (errors.REQUEST_TIMED_OUT, errors.NOT_CONTROLLER, errors.UNKNOWN_SERVER_ERROR,
     errors.POLICY_VIOLATION)
)  # fmt: skip
"""Codes that do not depend on the metadata."""

Body = dict[str, Any]
Codes = Callable[[State], refusals.Codes]


@rule(
    "C15",
    "ReplicaPlacement",
    "New replicas are spread over brokers and racks, unfenced brokers first, and leaders rotate.",
    "T1 T6",
    nothing="the controller has placed no replica on brokers",
)
@rule(
    "C18",
    "RefusalsAreTrue",
    "A refusal gives a reason that held in some state between the request and its answer. A "
    "request is done only where no such reason held.",
    "T1 T6",
)
@rule(
    "C19",
    "DoneAsAsked",
    "An acknowledged change is in the committed log exactly as requested (and in every later read: "
    "checker topics).",
    "T1 T5 T6",
)
@rule(
    "C20",
    "ReadsAreCommitted",
    "A read returns one committed state: one within its duration, or the one that the node had "
    "applied.",
    "T1 T6",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge all captured answers."""
    controller = Controller.of(evidence)
    if evidence.captured and controller.is_whole(report, "C8", "C15", "C18", "C19", "C20"):
        _Judge(evidence, report, controller.history).run()


class _Judge:
    """Judges one run."""

    def __init__(self, evidence: Evidence, report: Report, history: StateHistory) -> None:
        self._evidence = evidence
        self._report = report
        self._history = history
        self._commits = Commits.of(evidence)
        test = evidence.run.test
        self._nodes = tuple(evidence.names)[: evidence.controllers]
        brokers = test.get("brokers")
        count = len(brokers) if isinstance(brokers, list) and brokers else evidence.controllers
        factor = min(3, count) if in_virtual_time(test) else 1  # Nodes of hosts use the default.
        self._defaults = {"count": evidence.setting("default_partitions", 1), "factor": factor}
        blur = self._commits.blur
        self._departures = Departures(evidence, history, session_ns(evidence), blur)

    def run(self) -> None:
        """Judge every message that has a rule."""
        rules: dict[str, Callable[[Exchange], None]] = {
            "CreateTopics": self._create,
            "DeleteTopics": self._delete,
            "CreatePartitions": self._grow,
            "AlterConfigs": partial(self._configs, False),
            "IncrementalAlterConfigs": partial(self._configs, True),
            "ElectLeaders": self._elect,
            "AlterPartitionReassignments": self._reassign,
            "AlterPartition": self._propose,
            "BrokerRegistration": self._register,
            "BrokerHeartbeat": self._beat,
            "UnregisterBroker": self._unregister,
            "AllocateProducerIds": self._ids,
            "UpdateFeatures": self._features,
            "ListPartitionReassignments": self._read,
            "DescribeConfigs": self._read_configs,
            **dict.fromkeys(reads.LOCAL, self._local),
        }
        for message in self._evidence.sequence:
            rule = rules.get(message.api)
            if rule is not None and isinstance(message.request, dict):
                exchange = self._commits.exchange(message)
                if exchange is not None:
                    rule(exchange)

    # --- refusals and effects ---------------------------------------------------------------

    def _judge(
        self,
        exchange: Exchange,
        what: str,
        code: int,
        codes: Codes,
        at: State | None = None,
        accepted: str = "C18",
    ) -> bool:
        """C18: ``code`` is right in a state of the exchange, or in ``at`` if given. Return
        whether it reports success; ``accepted`` is the rule that forbids a wrong one."""
        if code == errors.NOT_CONTROLLER and self._evidence.is_broker(exchange.message):
            # Only a broker must look for another controller; clients know no controllers.
            self._report.broken(
                "C18", f"{exchange.where}: {what} with {errors.error_name(code)}, as a broker."
            )
        if code in UNTOLD:
            return False
        states = self._history.states(*exchange.span) if at is None else iter((at,))
        invariant = accepted if code == errors.NONE else "C18"
        self._report.held(invariant)
        right: set[int] = set()
        for state in states:
            found = codes(state)
            if found is None:
                return code == errors.NONE
            if code in found:
                return code == errors.NONE
            right |= found.codes
        names = ", ".join(map(errors.error_name, sorted(right)))
        self._report.broken(
            invariant,
            f"{exchange.where}: {what} with {errors.error_name(code)}; the committed metadata calls"
            f" for {names}.",
        )
        return False

    def _done(
        self,
        exchange: Exchange,
        wrong: str | None,
        invariant: str = "C19",
        limit: Limit | None = None,
    ) -> None:
        """C19: an acknowledged operation is in the log."""
        self._report.held(invariant)
        if wrong is not None:
            self._report.broken(invariant, f"{exchange.where}: {wrong}.", limit=limit)

    def _create(self, exchange: Exchange) -> None:
        topics, answers = exchange.request["topics"], exchange.answer["topics"]
        names = [topic["name"] for topic in topics]
        dry = exchange.request["validate_only"]
        created = [each["name"] for each in answers if each["error_code"] == errors.NONE]
        for topic, result in zip(topics, answers, strict=False):
            codes = partial(
                refusals.create_topic,
                topic=topic,
                names=names,
                defaults=self._defaults,
                created=created,
            )
            what = f"topic {topic['name'][:60]}"
            code, before = result["error_code"], None
            if code == errors.NONE and not dry:
                wrong, before = effects.created(
                    self._history, exchange, topic, result, self._defaults
                )
                self._done(exchange, wrong)
                if before is not None and not topic["assignments"]:
                    # As it was created: another request may have reassigned it at once.
                    made = self._history.as_made(bytes(result["topic_id"]), before.end)
                    self._placed(exchange, before, [list(p.replicas) for p in made])
            self._judge(exchange, what, code, codes, before)

    def _placed(self, exchange: Exchange, before: State, placed: list[list[int]]) -> None:
        if before.brokers() and placed:
            self._done(exchange, placement.fault(before, placed), "C15")

    def _delete(self, exchange: Exchange) -> None:
        wanted = exchange.request["topics"]
        meant = [(each["name"], bytes(each["topic_id"])) for each in wanted]
        for each, result in zip(wanted, exchange.answer["responses"], strict=False):
            what = f"topic {each['name'] or each['topic_id'].hex()}"
            codes = partial(refusals.delete_topic, wanted=each, meant=meant)
            if result["error_code"] == errors.NONE:
                name, topic_id = result["name"], bytes(result["topic_id"])
                self._done(exchange, effects.deleted(self._history, exchange, name, topic_id))
            self._judge(exchange, what, result["error_code"], codes)

    def _grow(self, exchange: Exchange) -> None:
        topics = exchange.request["topics"]
        names = [topic["name"] for topic in topics]
        for topic, result in zip(topics, exchange.answer["results"], strict=False):
            codes = partial(refusals.grow_topic, topic=topic, names=names)
            code, before = result["error_code"], None
            if code == errors.NONE and not exchange.request["validate_only"]:
                wrong, before, placed = effects.grown(self._history, exchange, topic)
                self._done(exchange, wrong)
                if wrong is None and before is not None and topic["assignments"] is None:
                    self._placed(exchange, before, placed)
            self._judge(exchange, f"topic {topic['name']}", code, codes, before)

    def _configs(self, incremental: bool, exchange: Exchange) -> None:
        resources = exchange.request["resources"]
        keys = [(r["resource_type"], r["resource_name"]) for r in resources]
        for wanted, result in zip(resources, exchange.answer["responses"], strict=False):
            key = (wanted["resource_type"], wanted["resource_name"])
            codes = partial(
                refusals.alter_configs,
                wanted=wanted,
                twice=keys.count(key) > 1,
                incremental=incremental,
                nodes=self._nodes,
            )
            done = self._judge(exchange, f"resource {key}", result["error_code"], codes)
            if done and not exchange.request["validate_only"]:
                self._done(
                    exchange, effects.configured(self._history, exchange, wanted, incremental)
                )

    def _elect(self, exchange: Exchange) -> None:
        body, answer = exchange.request, exchange.answer
        if answer.get("error_code") != errors.NONE:
            return
        kind = body["election_type"]
        if body["topic_partitions"] is None:
            for name, number in refusals.left_out(State(self._history, exchange.low), answer):
                codes = partial(refusals.leave_out, name=name, number=number, kind=kind)
                what = f"election of all without {name}-{number}"
                self._judge(exchange, what, errors.ELECTION_NOT_NEEDED, codes)
        for result in answer["replica_election_results"]:
            name = result["topic"]
            for part in result["partition_result"]:
                number = part["partition_id"]
                codes = partial(refusals.elect, name=name, number=number, kind=kind)
                what = f"election of {name}-{number}"
                if self._judge(exchange, what, part["error_code"], codes):
                    wrong = effects.elected(self._history, exchange, name, number, kind)
                    self._done(exchange, wrong)

    def _reassign(self, exchange: Exchange) -> None:
        body, answer = exchange.request, exchange.answer
        if answer["error_code"] != errors.NONE:
            return
        told = {
            (each["name"], part["partition_index"]): part["error_code"]
            for each in answer["responses"]
            for part in each["partitions"]
        }
        resize = body.get("allow_replication_factor_change", True)
        for topic in body["topics"]:
            for wanted in topic["partitions"]:
                name, number = topic["name"], wanted["partition_index"]
                code = told.get((name, number), errors.UNKNOWN_SERVER_ERROR)
                codes = partial(refusals.reassign, name=name, wanted=wanted, may_resize=resize)
                if self._judge(exchange, f"reassignment of {name}-{number}", code, codes):
                    target = wanted["replicas"]
                    wrong = effects.reassigned(
                        self._history,
                        exchange,
                        name,
                        number,
                        None if target is None else list(target),
                    )
                    self._done(exchange, wrong)

    # --- brokers ----------------------------------------------------------------------------

    def _propose(self, exchange: Exchange) -> None:
        body, answer = exchange.request, exchange.answer
        speak = partial(refusals.speak, broker_id=body["broker_id"], epoch=body["broker_epoch"])

        def stale(state: State) -> Allowed:
            return Allowed(errors.STALE_BROKER_EPOCH) if speak(state).must else Allowed()

        if not self._judge(exchange, "an ISR", answer["error_code"], stale, accepted="C2"):
            return
        told = {
            (bytes(topic["topic_id"]), part["partition_index"]): part
            for topic in answer["topics"]
            for part in topic["partitions"]
        }
        for topic in body["topics"]:
            topic_id = bytes(topic["topic_id"])
            for proposal in topic["partitions"]:
                number = proposal["partition_index"]
                part = told.get((topic_id, number))
                if part is None:
                    continue
                codes = partial(
                    refusals.propose,
                    sender=body["broker_id"],
                    topic_id=topic_id,
                    proposal=proposal,
                )
                done = part["error_code"] in (errors.NONE, errors.NEW_LEADER_ELECTED)
                code = errors.NONE if done else part["error_code"]
                what = f"an ISR of {topic_id.hex()}-{number}"
                self._judge(exchange, what, code, codes, accepted="C8")
                if done:
                    wrong = effects.proposed(self._history, exchange, topic_id, proposal, part)
                    self._done(exchange, wrong)

    def _register(self, exchange: Exchange) -> None:
        body, answer = exchange.request, exchange.answer
        codes = partial(refusals.register, body=body, cluster_id=self._evidence.cluster_id)
        if self._judge(exchange, f"broker {body['broker_id']}", answer["error_code"], codes):
            epoch = answer["broker_epoch"]
            self._done(exchange, effects.registered(self._history, exchange, body, epoch))

    def _beat(self, exchange: Exchange) -> None:
        body, answer = exchange.request, exchange.answer
        codes = partial(refusals.speak, broker_id=body["broker_id"], epoch=body["broker_epoch"])
        what = f"heartbeat of broker {body['broker_id']} epoch {body['broker_epoch']}"
        if self._judge(exchange, what, answer["error_code"], codes, accepted="C2"):
            self._done(exchange, effects.heartbeat(self._history, exchange, answer))
            self._done(exchange, self._departures.heartbeat(exchange), limit=DEPARTURE)

    def _unregister(self, exchange: Exchange) -> None:
        broker_id = exchange.request["broker_id"]
        code = exchange.answer["error_code"]

        def codes(state: State) -> Allowed:
            known = state.broker(broker_id) is not None
            return Allowed() if known else Allowed(errors.BROKER_ID_NOT_REGISTERED)

        if self._judge(exchange, f"broker {broker_id}", code, codes):
            versions = self._history.brokers[broker_id]
            gone = None in list(versions.among(*exchange.span))
            self._done(exchange, None if gone else f"broker {broker_id} stays registered")

    def _ids(self, exchange: Exchange) -> None:
        body, answer = exchange.request, exchange.answer
        codes = partial(refusals.speak, broker_id=body["broker_id"], epoch=body["broker_epoch"])
        if self._judge(exchange, "producer ids", answer["error_code"], codes, accepted="C2"):
            self._done(exchange, effects.block(self._history, exchange, answer))

    def _features(self, exchange: Exchange) -> None:
        body, answer = exchange.request, exchange.answer
        if not self._judge(
            exchange, "features", answer["error_code"], partial(refusals.update_features, body=body)
        ):
            return
        for update in [] if body["validate_only"] else body["feature_updates"]:
            name, level = update["feature"], update["max_version_level"]
            states = self._history.states(*exchange.span)
            there = name == "kraft.version" or any(s.level(name) == level for s in states)
            self._done(exchange, None if there else f"feature {name} never has level {level}")

    # --- reads ------------------------------------------------------------------------------

    def _shows(self, exchange: Exchange, fault: Callable[[State], str | None]) -> None:
        """C20: the answer shows one of the states of the exchange."""
        self._report.held("C20")
        wrong = None
        for state in self._history.states(*exchange.span):
            found = fault(state)
            if found is None:
                return
            wrong = wrong or found
        self._report.broken(
            "C20", f"{exchange.where}, but with a state that was never committed: {wrong}."
        )

    def _read(self, exchange: Exchange) -> None:
        self._judge(exchange, "a read", exchange.answer["error_code"], lambda _: None)
        if exchange.answer["error_code"] == errors.NONE:
            body, answer = exchange.request, exchange.answer
            self._shows(exchange, lambda s: reads.list_reassignments(s, body, answer, None))

    def _read_configs(self, exchange: Exchange) -> None:
        body, answer = exchange.request, exchange.answer
        if any(each["error_code"] in UNTOLD for each in answer["results"]):
            return
        broker = self._evidence.is_broker(exchange.message)
        nodes = () if broker else self._nodes

        def fault(state: State) -> str | None:
            return reads.describe_configs(state, body, answer, nodes)

        if broker:
            self._taken_in(exchange, fault)
        else:
            self._shows(exchange, fault)

    def _local(self, exchange: Exchange) -> None:
        message, body, answer = exchange.message, exchange.request, exchange.answer
        if answer.get("error_code", errors.NONE) in UNTOLD:
            return
        rule = reads.LOCAL[message.api]
        listener = "PLAINTEXT" if self._evidence.is_broker(message) else None

        def fault(state: State) -> str | None:
            return rule(state, body, answer, listener)

        proven = message.api == "Metadata" and body["topics"] != []
        if proven and answer["controller_id"] == message.replier and listener is None:
            self._shows(exchange, fault)
        else:
            self._taken_in(exchange, fault)

    def _taken_in(self, exchange: Exchange, fault: Callable[[State], str | None]) -> None:
        """C20: the answer of any node shows the state that it had applied when it answered.

        That is the state before the step that answers, or after it. A broker that serves has caught
        up with what was committed when it started.
        """
        if not self._evidence.lag_traced:
            self._report.unseen("C20", NO_LAG)
            return
        self._report.held("C20")
        message, commits = exchange.message, self._commits
        node = self._evidence.name(message.replier)
        low, end, life = commits.shown(node, message.time)
        serves = message.api != "ApiVersions" and self._evidence.is_broker(message)
        known = commits.at_start(node, life) if serves else 0
        if end < known:
            self._report.broken(
                "C20",
                f"{exchange.where} having applied the log up to offset {end}; when it started, "
                f"{known} was committed, and a broker serves only once it has caught up.",
            )
        elif not any(fault(state) is None for state in self._history.states(low, end)):
            self._report.broken(
                "C20",
                f"{exchange.where} having applied the log up to offset {end}, but not as that state"
                f" is: {fault(State(self._history, end))}.",
            )
