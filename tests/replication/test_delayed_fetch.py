"""A follower without room fetches again later, also where a fetch had to wait for a flush."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.fetchers import Fetchers
from kraftwreck.nodes.replication.following import Following
from kraftwreck.nodes.replication.partition import Surroundings

KEY = (bytes(16), 0)

pytestmark = pytest.mark.interpreted


def test_a_fetch_that_waits_for_batches_without_room_is_due_again() -> None:
    """Seed 2410125: the fetch was due and held back at once, so the broker ticked forever."""
    log = SimpleNamespace(end=35, start=0)
    partition: Any = SimpleNamespace(
        key=KEY,
        log=log,
        leading=False,
        vouched=33,
        assignment=SimpleNamespace(leader=2, leader_epoch=3),
    )
    surroundings = Surroundings(1, 1_000_000, now=5_000)
    fetchers = Fetchers(surroundings)
    fetchers.follow(partition)
    following = fetchers._following[KEY]
    assert isinstance(following, Following)
    assert not following.may_fetch()
    log.end = 33
    fetchers.delay(KEY)
    assert 5_000 < fetchers.deadline < 10_000_000
    assert following.may_fetch()
