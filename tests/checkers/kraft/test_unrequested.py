"""C21: settings change, and feature levels, only as some request was to change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.kraft.recorded.capture import Capture
from tests.checkers.breaks import broken

SECOND = 1_000_000_000
SET, DELETE, APPEND = 0, 1, 2
REFUSED, TIMED_OUT, NOT_CONTROLLER = 40, 7, 41
NAME = "cleanup.policy"

MakeRun = Callable[..., Any]


class Admin:
    """Asks n1, which may answer or not; ``judge`` says whether C21 is broken."""

    def __init__(self, cluster: Any, records: Any, capture: Capture, make_run: MakeRun) -> None:
        self.cluster, self.records = cluster, records
        self._capture, self._make_run = capture, make_run

    def asks(self, api: str, body: Any, answer: Any = None, after: float = 0.0) -> None:
        now = int((self.cluster.time + after) * SECOND)
        self._capture.api(now, -1, 1, api, body, None, now)
        if answer is not None:
            self._capture.api(now, -1, 1, api, body, answer, now)

    def alters(
        self,
        operation: int,
        value: str | None,
        *,
        code: int | None = None,
        dry: bool = False,
        after: float = 0.0,
    ) -> None:
        config = {"name": NAME, "config_operation": operation, "value": value}
        each = {"resource_type": 2, "resource_name": "t", "configs": [config]}
        answer = None if code is None else {"responses": [{"error_code": code}]}
        body = {"resources": [each], "validate_only": dry}
        self.asks("IncrementalAlterConfigs", body, answer, after)

    def replaces(self, **configs: str) -> None:
        given = [{"name": name.replace("_", "."), "value": v} for name, v in configs.items()]
        each = {"resource_type": 2, "resource_name": "t", "configs": given}
        self.asks("AlterConfigs", {"resources": [each], "validate_only": False})

    def upgrades(self, level: int, code: int | None = None) -> None:
        update = {"feature": "f", "max_version_level": level, "upgrade_type": 1}
        answer = None if code is None else {"error_code": code}
        body = {"feature_updates": [update], "validate_only": False}
        self.asks("UpdateFeatures", body, answer)

    def writes(self, value: str | None) -> None:
        self.cluster.time += 0.5
        self.cluster.write(self.records.config("t", NAME, value))

    def judge(self) -> bool:
        run = self._make_run(None, self.cluster, capture=self._capture, simulated=True)
        found = [a.explanation for a in check(run).anomalies if a.type == "C21"]
        # The log of these tests begins with settings k and a topic that nobody asked for.
        return any(not text.startswith(("k of ''", "Topic ")) for text in found)


@pytest.fixture
def admin(cluster: Any, records: Any, capture: Capture, make_run: MakeRun) -> Admin:
    return Admin(cluster, records, capture, make_run)


def test_nobody_asked(admin: Admin) -> None:
    assert not admin.judge()
    admin.writes("compact")
    assert admin.judge()


@pytest.mark.parametrize(
    ("code", "right"),
    [(None, True), (0, True), (TIMED_OUT, True), (NOT_CONTROLLER, True), (REFUSED, False)],
)
def test_requests_without_an_answer_count(admin: Admin, code: int | None, right: bool) -> None:
    admin.alters(SET, "compact", code=code)
    admin.writes("compact")
    assert admin.judge() != right


def test_a_check_changes_nothing(admin: Admin) -> None:
    admin.alters(SET, "compact", dry=True)
    admin.writes("compact")
    assert admin.judge()


def test_later_requests_do_not_count(admin: Admin) -> None:
    admin.alters(SET, "compact", after=5.0)
    admin.writes("compact")
    assert admin.judge()


@pytest.mark.parametrize(("result", "right"), [("delete,compact", True), ("compact", False)])
def test_a_list_that_is_not_set_grows_from_its_default(
    admin: Admin, result: str, right: bool
) -> None:
    admin.alters(APPEND, "compact")
    admin.writes(result)
    assert admin.judge() != right


def test_a_replacement_removes_unnamed_configurations(admin: Admin) -> None:
    admin.alters(SET, "compact")
    admin.writes("compact")
    admin.replaces(flush_messages="5")
    admin.writes(None)
    assert not admin.judge()


def test_a_deletion_needs_a_request_to_delete(admin: Admin) -> None:
    admin.alters(SET, "compact")
    admin.writes("compact")
    admin.writes(None)
    assert admin.judge()


@pytest.mark.parametrize("asked", [True, False])
def test_a_topic_comes_and_goes_with_its_configurations(admin: Admin, asked: bool) -> None:
    configs = [{"name": NAME, "value": "compact"}] if asked else []
    body = {"topics": [{"name": "u", "configs": configs}], "validate_only": False}
    admin.asks("CreateTopics", body)
    admin.cluster.time += 0.5
    other = bytes(15) + b"\x77"
    records = admin.records
    admin.cluster.write(records.topic("u", other), records.config("u", NAME, "compact"))
    admin.cluster.write(records.remove_topic(other))
    assert admin.judge() != asked


@pytest.mark.parametrize(
    ("level", "code", "right"), [(2, 0, True), (2, None, True), (2, 42, False), (3, 0, False)]
)
def test_levels_change_as_they_were_to(
    admin: Admin, level: int, code: int | None, right: bool
) -> None:
    admin.upgrades(level, code)
    admin.cluster.time += 0.5
    admin.cluster.write(admin.records.feature("f", 2))
    assert admin.judge() != right


def test_where_not_all_requests_are_known_nothing_is_said(
    cluster: Any, records: Any, capture: Capture, make_run: MakeRun
) -> None:
    cluster.write(records.config("t", NAME, "compact"))
    assert "C21" not in broken(make_run(None, cluster, capture=capture))
    capture.dropped = 1
    assert "C21" not in broken(make_run(None, cluster, capture=capture, simulated=True))
