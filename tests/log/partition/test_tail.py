"""A read at the end of a log, by memory, is the read by the indexes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.log.partition.tail import KEPT, Tail


@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(61, 200)), min_size=1, max_size=12),
    data=st.data(),
)
def test_an_extent_is_that_of_a_walk(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    tail, batches = Tail(), []
    offset, position = 5, 0
    for count, size in sizes:
        tail.note(offset, position)
        batches.append((offset, offset + count, position, position + size))
        offset, position = offset + count, position + size
    start = data.draw(st.integers(5, offset))
    limit = data.draw(st.integers(start, offset))
    most = data.draw(st.integers(-1000, 1000))
    wanted = None
    for base, end, at, to in batches:
        if end <= start or end > limit or (wanted is not None and to - wanted[0] > most):
            if wanted is not None:
                break
            if base > start:
                break
            continue
        wanted = (at if wanted is None else wanted[0], to)
    assert tail.extent(start, limit, most, offset, position) == wanted


def test_only_the_last_batches_are_remembered() -> None:
    tail = Tail()
    for number in range(10 * KEPT):
        tail.note(number, 100 * number)
    assert not tail.has(0)
    assert tail.has(9 * KEPT)
    first = 10 * KEPT - 3
    found = tail.extent(first, 10 * KEPT, 150, 10 * KEPT, 1000 * KEPT)
    assert found == (100 * first, 100 * first + 100)
