"""Topics, configurations and feature levels without a request: C21 NothingUnasked.

For each change in the committed log there must be a request for it. The request was sent before
the change was written, is not only a validation, and was not refused. A request without a known
answer may have been carried out. Judged only where all requests of all clients are known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from kraftwreck.checkers.kraft.controller_model.config_values import SET, altered
from kraftwreck.checkers.kraft.controller_model.exchanges import Commits
from kraftwreck.checkers.kraft.controller_model.metadata_model import BROKER, TOPIC
from kraftwreck.checkers.kraft.controller_model.state import NEVER, StateHistory
from kraftwreck.checkers.kraft.invariants.answers import UNTOLD
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.eligible_rules import MIN_INSYNC
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.recorded.arrived import all_arrived, arrived
from kraftwreck.checkers.kraft.rule import judges, rule
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.suspicion import in_virtual_time
from kraftwreck.histories.message import Message
from kraftwreck.nodes.protocol import errors

APIS: Final = {
    "AlterConfigs": "responses",
    "CreateTopics": "topics",
    "IncrementalAlterConfigs": "responses",
    "UpdateFeatures": None,
}
"""APIs that change settings, and where their answers have the errors of their parts."""
Key = tuple[int, str, str]
Change = tuple[int, int, str | None]
"""Time of sending (ns), operation, value."""


class _Requested:
    """The changes in all requests, by setting."""

    def __init__(self, run: RunData) -> None:
        self.settings: dict[Key, list[Change]] = defaultdict(list)
        self.levels: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.replaced: dict[tuple[int, str], list[int]] = defaultdict(list)
        """When requests replaced everything that they do not name."""
        for message in arrived(run, APIS):
            self._take(message)

    def _take(self, message: Message) -> None:
        request, sent = message.request, message.sent
        if request["validate_only"]:
            return
        if message.api == "UpdateFeatures":
            if _may_be_done(message.response):
                for update in request["feature_updates"]:
                    self.levels[update["feature"]].append((sent, update["max_version_level"]))
            return
        for part in _parts(message):
            if message.api == "CreateTopics":
                for config in part["configs"]:
                    key = TOPIC, part["name"], config["name"]
                    self.settings[key].append((sent, SET, config["value"]))
                continue
            kind, name = part["resource_type"], part["resource_name"]
            for config in part["configs"]:
                operation = config.get("config_operation", SET)
                self.settings[kind, name, config["name"]].append((sent, operation, config["value"]))
            if message.api == "AlterConfigs":
                self.replaced[kind, name].append(sent)


def _may_be_done(part: dict[str, Any] | None) -> bool:
    return part is None or part["error_code"] == errors.NONE or part["error_code"] in UNTOLD


def _parts(message: Message) -> Iterator[dict[str, Any]]:
    """Yield the parts of a request that were not refused."""
    where = APIS[message.api]
    wanted = message.request["topics" if message.api == "CreateTopics" else "resources"]
    told = [None] * len(wanted) if message.response is None else message.response[where]
    for part, result in zip(wanted, told, strict=False):
        if _may_be_done(result):
            yield part


@rule(
    "C21",
    "NothingUnasked",
    "The committed log creates no topic, and changes no configuration and no feature level, "
    "without a request.",
    "T1 T6",
    nothing="no topic was created",
)
def check_topics(evidence: Evidence, report: Report) -> None:
    """Judge C21: a request named every topic that was created."""
    history = Controller.of(evidence).history
    if not all_arrived(evidence.run):
        report.unseen("C21", "some requests may be unknown")
        return
    requested = {
        topic["name"]
        for message in evidence.of("CreateTopics")
        if message.request is not None and not message.request["validate_only"]
        for topic in message.request["topics"]
    }
    for name, versions in history.topics.items():
        report.held("C21")
        if name not in requested:
            end = next(end for end, _, _ in versions.changes())
            report.broken("C21", f"Topic {name} is created below offset {end} without a request.")


@judges("C21")
def check_settings(evidence: Evidence, report: Report) -> None:
    """Judge C21 of configurations and of feature levels."""
    run, history = evidence.run, Controller.of(evidence).history
    if not in_virtual_time(run.test) or not all_arrived(run) or not history.whole:
        return
    commits, requested = Commits.of(evidence), _Requested(run)
    for key, versions in history.configs.items():
        for end, before, after in versions.changes():
            if before == after or _goes_with_its_topic(history, key, end, after):
                continue
            report.held("C21")
            if not _is_requested(
                requested, key, before, after, commits.written(end) + commits.blur
            ):
                report.broken(
                    "C21",
                    f"{key[2]} of {key[1]!r} changes from {before} to {after} below offset {end}"
                    " without a request.",
                )
    for name, levels in history.features.items():
        for end, old, new in levels.since(history.ends[0], 1 << 62):
            by = commits.written(end) + commits.blur
            report.held("C21")
            if not any(
                sent <= by and level == (new or 0) for sent, level in requested.levels[name]
            ):
                report.broken(
                    "C21",
                    f"Feature {name} changes from level {old} to {new} below offset {end} without"
                    " a request.",
                )


def _goes_with_its_topic(history: StateHistory, key: Key, end: int, after: str | None) -> bool:
    kind, name, _ = key
    return kind == TOPIC and after is None and history.topics.get(name, NEVER).at(end) is None


def _is_requested(
    requested: _Requested, key: Key, before: str | None, after: str | None, by: int
) -> bool:
    kind, resource, name = key
    if kind == BROKER and name == MIN_INSYNC:
        return True  # The controller sets it when eligible leader replicas are enabled.
    for sent, operation, value in requested.settings[key]:
        legal, result = altered(kind, name, operation, value, before)
        if sent <= by and legal is not False and (legal is None or result == after):
            return True
    return after is None and any(sent <= by for sent in requested.replaced[kind, resource])
