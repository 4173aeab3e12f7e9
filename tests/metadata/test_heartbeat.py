"""The states of a broker, line by line, and what each change writes."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.metadata.heartbeat import Facts, State, next_state

FENCED, UNFENCED = State.FENCED, State.UNFENCED
STOPPING, NOW = State.CONTROLLED_SHUTDOWN, State.SHUTDOWN_NOW
NOT_REGISTERED, STALE = 102, 77
SESSION_MS, PERIOD_MS = 9000, 1125
CHANGE, PARTITION = "BrokerRegistrationChangeRecord", "PartitionChangeRecord"


@pytest.mark.parametrize("fence", [False, True])
@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("caught_up", [False, True])
@pytest.mark.parametrize("leads", [False, True])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("current", list(State))
def test_the_table(
    current: State, fence: bool, stop: bool, caught_up: bool, leads: bool, known: bool
) -> None:
    expected = current
    if current is FENCED:
        if stop:
            expected = NOW
        elif not fence and caught_up:
            expected = UNFENCED
    elif current is UNFENCED:
        if fence and stop:
            expected = NOW
        elif fence:
            expected = FENCED
        elif stop:
            expected = STOPPING if leads else NOW
    elif current is STOPPING and not leads and known:
        expected = NOW
    assert next_state(current, fence, stop, Facts(caught_up, leads, known)) is expected


def test_a_broker_that_is_behind_its_registration_stays_fenced(rig: Any) -> None:
    """KIP-631."""
    epoch = rig.register(1)["broker_epoch"]
    behind = rig.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (behind["is_caught_up"], behind["is_fenced"]) == (False, True)
    assert rig.image.brokers[1].fenced
    ready = rig.heartbeat(1, current_metadata_offset=epoch)
    assert (ready["is_caught_up"], ready["is_fenced"]) == (True, False)
    assert not rig.image.brokers[1].fenced


def test_the_registration_counts_not_where_its_batch_begins(rig: Any) -> None:
    """The same process again: its epoch is old, the record that holds its listeners new."""
    epoch = rig.register(1)["broker_epoch"]
    rig.register(1)
    assert rig.heartbeat(1, current_metadata_offset=epoch)["is_fenced"]
    assert not rig.heartbeat(1)["is_fenced"]


def test_a_broker_may_stay_fenced(rig: Any) -> None:
    rig.register(1)
    answer = rig.heartbeat(1, want_fence=True)
    assert (answer["is_caught_up"], answer["is_fenced"]) == (True, True)


def test_an_unregistered_broker_is_refused(rig: Any) -> None:
    assert rig.heartbeat(4, broker_epoch=3)["error_code"] == NOT_REGISTERED


def test_a_stale_epoch_is_refused_and_keeps_no_session_alive(rig: Any) -> None:
    rig.start(1)
    epoch = rig.image.brokers[1].epoch
    for _ in range(2):
        rig.wait(SESSION_MS // 2)
        assert rig.heartbeat(1, broker_epoch=epoch - 1)["error_code"] == STALE
    rig.wait(PERIOD_MS)
    rig.commit()
    assert rig.image.brokers[1].fenced


def test_fencing_takes_the_partitions_first_and_unfencing_gives_them_last(rig: Any) -> None:
    rig.start(1, 2)
    rig.create("t", num_partitions=1, replication_factor=2)
    leader = next(iter(rig.image.partitions.values())).leader
    mark = len(rig.records())
    assert rig.heartbeat(leader, want_fence=True)["is_fenced"]
    assert rig.since(mark) == [PARTITION, CHANGE]
    other = 3 - leader
    rig.heartbeat(other, want_fence=True)
    partition = next(iter(rig.image.partitions.values()))
    assert (partition.leader, partition.isr) == (-1, (other,)), "the last one keeps its place"
    mark = len(rig.records())
    rig.heartbeat(other)
    assert rig.since(mark) == [CHANGE, PARTITION]
    assert next(iter(rig.image.partitions.values())).leader == other


def test_a_broker_that_leads_nothing_may_stop_at_once(rig: Any) -> None:
    rig.start(1)
    mark = len(rig.records())
    answer = rig.heartbeat(1, want_shut_down=True)
    assert (answer["should_shut_down"], answer["is_fenced"]) == (True, True)
    assert rig.since(mark) == [CHANGE]
    again = rig.heartbeat(1, want_shut_down=True)
    assert again["should_shut_down"]
    assert rig.since(mark) == [CHANGE], "it is fenced already"


def test_a_leader_stops_once_every_active_broker_knows(rig: Any) -> None:
    rig.start(1, 2)
    rig.create("t", num_partitions=4, replication_factor=2)
    mark = len(rig.records())
    stopping = rig.heartbeat(1, want_shut_down=True)
    assert (stopping["should_shut_down"], stopping["is_fenced"]) == (False, False)
    names = rig.since(mark)
    assert (names[0], set(names[1:])) == (CHANGE, {PARTITION}), "the registration goes first"
    assert rig.image.brokers[1].in_controlled_shutdown
    assert not rig.image.led_by(1) and all(p.isr == (2,) for p in rig.image.partitions.values())
    began = rig.image.stable_offset
    mark = len(rig.records())
    rig.heartbeat(2, current_metadata_offset=began - 5)
    assert not rig.heartbeat(1, want_shut_down=True)["should_shut_down"]
    assert rig.since(mark) == [], "the shutdown begins once"
    rig.heartbeat(2, current_metadata_offset=began)
    answer = rig.heartbeat(1, want_shut_down=True)
    assert (answer["should_shut_down"], answer["is_fenced"]) == (True, True)


def test_other_changes_do_not_move_the_offset_to_be_reached(rig: Any) -> None:
    """KAFKA-14292."""
    rig.start(1, 2)
    rig.create("t", num_partitions=4, replication_factor=2)
    rig.heartbeat(1, want_shut_down=True)
    began = rig.image.stable_offset
    for _ in range(3):
        assert not rig.heartbeat(1, want_shut_down=True)["should_shut_down"]
    rig.heartbeat(2, current_metadata_offset=began)
    assert rig.heartbeat(1, want_shut_down=True)["should_shut_down"]


def test_a_controlled_shutdown_survives_the_controller(rig: Any) -> None:
    rig.start(1, 2)
    rig.create("t", num_partitions=4, replication_factor=2)
    rig.heartbeat(1, want_shut_down=True)
    rig.follow(2, 2)
    rig.lead(3)
    claimed = rig.image.stable_offset
    assert not rig.heartbeat(1, want_shut_down=True)["should_shut_down"], "2 not heard of"
    rig.heartbeat(2, current_metadata_offset=claimed)
    assert rig.heartbeat(1, want_shut_down=True)["should_shut_down"]


def test_a_late_heartbeat_does_not_lower_the_applied_offset(rig: Any) -> None:
    """Seed 405227: else a broker that stops waits for another that has caught up long ago."""
    rig.start(1, 2)
    rig.create("t", num_partitions=4, replication_factor=2)
    rig.heartbeat(1, want_shut_down=True)
    began = rig.image.stable_offset
    rig.heartbeat(2, current_metadata_offset=began)
    rig.heartbeat(2, current_metadata_offset=began - 5)
    assert rig.heartbeat(1, want_shut_down=True)["should_shut_down"]


def test_a_late_heartbeat_makes_no_leader_of_a_broker_that_stops(rig: Any) -> None:
    """Seed 405963: sent before the broker wished to stop, it comes once that one is fenced."""
    rig.start(1, 2)
    rig.create("t", num_partitions=4, replication_factor=2)
    rig.alter("t", "unclean.leader.election.enable", 0, "true")
    late = rig.beat(1)
    rig.heartbeat(1, want_shut_down=True)
    rig.heartbeat(2, want_fence=True)
    rig.heartbeat(1, want_fence=True)
    mark = len(rig.records())
    assert not rig.call("BrokerHeartbeat", 1, late)["is_fenced"]
    assert rig.since(mark) == [CHANGE]
    assert rig.image.brokers[1].in_controlled_shutdown and not rig.image.led_by(1)


def test_a_silent_broker_is_fenced_within_a_session_and_a_period(rig: Any) -> None:
    rig.start(1, 2)
    silent = rig.now
    while not rig.image.brokers[1].fenced:
        rig.heartbeat(2)
        rig.wait(200)
        rig.commit()
        assert rig.now <= silent + (SESSION_MS + PERIOD_MS + 500) * 1000
    assert rig.now >= silent + SESSION_MS * 1000
    assert not rig.image.brokers[2].fenced


def test_sessions_restart_with_a_new_controller(rig: Any) -> None:
    """KAFKA-18138: a broker silent since before the failover is fenced, too."""
    rig.start(1)
    rig.wait(SESSION_MS - 1000)
    rig.follow(2, 2)
    rig.lead(3)
    claimed = rig.now
    rig.wait(SESSION_MS - 2000)
    rig.commit()
    assert not rig.image.brokers[1].fenced
    while not rig.image.brokers[1].fenced:
        rig.wait(200)
        rig.commit()
        assert rig.now <= claimed + (SESSION_MS + PERIOD_MS + 200) * 1000


def test_contact_counts_from_the_arrival_of_the_heartbeat(rig: Any) -> None:
    rig.start(1)
    rig.wait(SESSION_MS - 100)
    rig.ask("BrokerHeartbeat", 1, rig.beat(1))  # its answer waits for a commit
    rig.wait(SESSION_MS - 100)
    assert not rig.image.brokers[1].fenced


def test_two_sessions_that_end_together_are_fenced_one_on_top_of_the_other(rig: Any) -> None:
    """KAFKA-13173."""
    rig.start(1, 2, 3)
    rig.create("t", num_partitions=6, replication_factor=3)
    rig.wait(SESSION_MS - 100)
    rig.heartbeat(3)
    rig.wait(PERIOD_MS + 100)
    assert [b.fenced for _, b in sorted(rig.image.brokers.items())] == [True, False, False]
    assert rig.controller.deadline == rig.now, "there may be more"
    rig.wait(0)
    assert len(rig.quorum.uncommitted) == 2, "each in a batch of its own"
    rig.commit()
    assert [b.fenced for _, b in sorted(rig.image.brokers.items())] == [True, True, False]
    for partition in rig.image.partitions.values():
        assert (partition.leader, partition.isr) == (3, (3,))
        changes = partition.partition_epoch
        assert changes == 2, "each broker left by a change of its own"


def test_replicas_on_a_directory_that_went_offline_leave(rig: Any) -> None:
    lost, kept = bytes((200, 1)) * 8, bytes((201, 1)) * 8
    rig.register(1, log_dirs=[lost, kept])
    rig.heartbeat(1)
    mark = len(rig.records())
    rig.heartbeat(1, offline_log_dirs=[lost, bytes((202, 1)) * 8])
    assert rig.since(mark) == [CHANGE]
    assert rig.image.brokers[1].log_dirs == (kept,)
    rig.heartbeat(1, offline_log_dirs=[lost])
    assert rig.since(mark) == [CHANGE], "told before"


def test_a_heartbeat_needs_proof_of_leadership(rig: Any) -> None:
    """A deposed controller must not acknowledge a broker's heartbeat."""
    rig.start(1)
    token = rig.ask("BrokerHeartbeat", 1, rig.beat(1))
    assert not rig.answered(token)
    rig.follow(2, 2)
    rig.collect()
    assert rig.answers[token]["error_code"] == 41


def test_a_refusal_waits_for_the_registration_it_is_based_on(rig: Any) -> None:
    """The new epoch may never be committed; then the old one is still right."""
    rig.start(1)
    old = rig.image.brokers[1].epoch
    rig.wait(SESSION_MS)
    rig.commit()
    rig.ask("BrokerRegistration", 4, rig.registration(1, process=2))
    token = rig.ask("BrokerHeartbeat", 1, rig.beat(1, broker_epoch=old))
    assert not rig.answered(token)
    rig.follow(2, 2)
    rig.collect()
    assert rig.answers[token]["error_code"] == 41
