"""Two-layer maps: against a model that simply keeps copies of everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.metadata.timeline import ABSENT, FrozenMap, Timeline, TimelineMap

KEYS = st.integers(0, 5)
VALUES = st.one_of(st.none(), st.integers(0, 3))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, VALUES),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("next")),
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("revert"), st.integers(0, 3)),
        st.tuples(st.just("freeze")),
        st.tuples(st.just("thaw")),
        st.tuples(st.just("direct"), KEYS, VALUES),
    ),
    max_size=60,
)


class Model:
    """The map after each version, as full copies; the first is the stable layer."""

    def __init__(self) -> None:
        self.version = 0
        self.copies: list[tuple[int, dict[int, Any]]] = [(-1, {})]

    @property
    def head(self) -> dict[int, Any]:
        return self.copies[-1][1]

    @property
    def stable(self) -> dict[int, Any]:
        return self.copies[0][1]

    def change(self) -> dict[int, Any]:
        if self.copies[-1][0] != self.version:
            self.copies.append((self.version, dict(self.head)))
        return self.head

    def commit(self, version: int) -> None:
        while len(self.copies) > 1 and self.copies[1][0] <= version:
            del self.copies[0]
        self.copies[0] = (-1, self.copies[0][1])

    def revert(self, version: int) -> None:
        while len(self.copies) > 1 and self.copies[-1][0] > version:
            self.copies.pop()


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_it_behaves_like_full_copies(steps: list[tuple[Any, ...]]) -> None:
    timeline = Timeline()
    watched: dict[int, Any] = {}
    settled: dict[int, Any] = {}

    def watch(seen: dict[int, Any]) -> Any:
        def changed(key: int, old: Any, new: Any) -> None:
            assert seen.get(key, ABSENT) is old or seen[key] == old
            if new is ABSENT:
                seen.pop(key, None)
            else:
                seen[key] = new

        return changed

    under_test: TimelineMap[int, Any] = TimelineMap(timeline, watch(watched))
    under_test.watch_stable(watch(settled))
    model = Model()
    frozen: FrozenMap[int, Any] | None = None
    expected: dict[int, Any] = {}
    for step in steps:
        kind, *rest = step
        timeline.version = model.version
        if kind == "put":
            model.change()[rest[0]] = under_test[rest[0]] = rest[1]
        elif kind == "delete":
            if rest[0] in model.head:
                del model.change()[rest[0]], under_test[rest[0]]
            else:
                with pytest.raises(KeyError):
                    del under_test[rest[0]]
        elif kind == "next":
            model.version += 1
        elif kind == "commit":
            version = model.version - rest[0]
            model.commit(version)
            timeline.commit(version)
            model.version += 1
        elif kind == "revert":
            version = model.version - rest[0]
            model.revert(version)
            timeline.revert(version)
            model.version += 1
        elif kind == "direct" and not timeline.pending:
            model.commit(model.version)
            timeline.version = None
            model.stable[rest[0]] = under_test[rest[0]] = rest[1]
        elif kind == "freeze" and frozen is None:
            frozen, expected = under_test.freeze(), dict(model.stable)
        elif kind == "thaw":
            under_test.thaw()
            frozen = None
        assert dict(under_test) == dict(under_test.items()) == model.head == watched
        assert dict(under_test.stable) == dict(under_test.stable.items()) == model.stable == settled
        assert (len(under_test), len(under_test.stable)) == (len(model.head), len(model.stable))
        for key in range(6):
            assert under_test.get(key, "none") == model.head.get(key, "none")
            assert under_test.stable.get(key, "none") == model.stable.get(key, "none")
            assert (key in under_test.stable) == (key in model.stable)
        if frozen is not None:
            assert dict(frozen) == expected
            assert len(frozen) == len(expected)


def test_a_commit_costs_as_much_as_its_changes() -> None:
    timeline = Timeline()
    large: TimelineMap[int, int] = TimelineMap(timeline)
    for key in range(1000):
        large[key] = 0
    timeline.version = 7
    large[3] = 1
    large[3] = 2
    assert timeline.pending == 1
    assert (large[3], large.stable[3]) == (2, 0)
    timeline.commit(6)
    assert large.stable[3] == 0
    timeline.commit(7)
    assert large.stable[3] == 2


def test_a_direct_change_below_pending_ones_is_a_defect() -> None:
    timeline = Timeline()
    pair: TimelineMap[str, int] = TimelineMap(timeline)
    timeline.version = 1
    pair["a"] = 1
    timeline.version = None
    with pytest.raises(AssertionError):
        pair["b"] = 2


def test_there_is_one_frozen_view_at_a_time() -> None:
    single: TimelineMap[str, int] = TimelineMap(Timeline())
    single.freeze()
    with pytest.raises(AssertionError):
        single.freeze()
    single.thaw()
    single.freeze()
