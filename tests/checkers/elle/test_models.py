"""The lattice of consistency models: models that anomalies refute, anomalies that models forbid."""

from __future__ import annotations

import pytest

from kraftwreck.checkers.elle import models


@pytest.mark.parametrize(
    ("anomalies", "weakest"),
    [
        (["G0"], ["read-uncommitted"]),
        (["duplicate-elements"], ["read-uncommitted"]),
        (["cyclic-versions"], ["read-uncommitted"]),
        (["G1a"], ["read-committed"]),
        (["G1b"], ["read-committed"]),
        (["G1c"], ["read-committed"]),
        (["incompatible-order"], ["read-committed"]),
        (["dirty-update"], ["read-committed"]),
        (["future-read"], ["read-committed"]),
        (["internal"], ["read-atomic"]),
        (["lost-update"], ["cursor-stability", "update-atomic"]),
        (["G-single"], ["consistent-view"]),
        (["G-single-item"], ["consistent-view", "repeatable-read"]),
        (["G-nonadjacent"], ["snapshot-isolation"]),
        (["G-nonadjacent-item"], ["repeatable-read", "snapshot-isolation"]),
        (["G2-item"], ["repeatable-read"]),
        (["G2"], ["serializable"]),
        (["G0-process"], ["strong-session-read-uncommitted"]),
        (["G1c-process"], ["strong-session-read-committed"]),
        (["G-single-item-process"], ["strong-session-snapshot-isolation"]),
        (["G2-item-process"], ["strong-session-serializable"]),
        (["G0-realtime"], ["strong-read-uncommitted"]),
        (["G1c-realtime"], ["strong-read-committed"]),
        (["G-nonadjacent-item-realtime"], ["strong-snapshot-isolation"]),
        (["G2-item-realtime"], ["strong-serializable"]),
        (["G2-item", "G1a"], ["read-committed"]),
        (["empty-transaction-graph"], []),
        ([], []),
    ],
)
def test_anomalies_refute_the_weakest_models_first(
    anomalies: list[str], weakest: list[str]
) -> None:
    found, stronger = models.boundary(anomalies)
    assert found == weakest
    assert not set(found) & set(stronger)


def test_models_stronger_than_a_refuted_one_are_refuted() -> None:
    _, stronger = models.boundary(["G-nonadjacent"])
    assert stronger == [
        "serializable",
        "strong-serializable",
        "strong-session-serializable",
        "strong-session-snapshot-isolation",
        "strong-snapshot-isolation",
    ]


def test_a_stronger_model_forbids_all_that_a_weaker_one_does() -> None:
    for model, weaker in models.STRONGER.items():
        for other in weaker:
            assert models.forbidden([other]) <= models.forbidden([model]), (model, other)


def test_names_for_one_model_mean_the_same() -> None:
    for name, other in models.CANONICAL.items():
        assert models.forbidden([name]) == models.forbidden([other])


def test_forbidding_an_anomaly_forbids_those_that_imply_it() -> None:
    assert models.forbidden((), ["G1"]) == {
        "G0",
        "G1",
        "G1a",
        "G1b",
        "G1c",
        "dirty-update",
        "future-read",
        "garbage-read",
        "incompatible-order",
    }


def test_only_models_of_sessions_and_time_forbid_their_cycles() -> None:
    assert not [name for name in models.forbidden(["serializable"]) if "process" in name]
    assert "G2-item-process" in models.forbidden(["strong-session-serializable"])
    assert "G2-item-realtime" not in models.forbidden(["strong-session-serializable"])


def test_an_unknown_model_is_refused_with_those_there_are() -> None:
    with pytest.raises(models.UnknownModelError, match="no consistency model 'serialisable'"):
        models.forbidden(["serialisable"])
