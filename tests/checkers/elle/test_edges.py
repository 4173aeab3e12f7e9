"""Transactions, judged right at the edges of what each rule compares."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from kraftwreck.checkers.elle import binding, check_transactions, orders, tokens
from kraftwreck.checkers.elle.binding import Limits
from kraftwreck.checkers.elle.components import tangled
from kraftwreck.checkers.elle.explain import op_text
from kraftwreck.checkers.elle.files import read_history_file
from kraftwreck.checkers.elle.reading import Numbering, as_numbers, read_transactions
from kraftwreck.checkers.elle.transactions import TransactionError
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HISTORY_SCHEMA, HistoryError, to_table
from tests.checkers.elle.test_append import at_once

pytestmark = pytest.mark.interpreted  # It replaces a constant of a module.

Build = Callable[[Sequence[tuple[Any, ...]]], list[Op]]


def found(ops: list[Op], model: str = "list-append", **options: Any) -> dict[str, Any]:
    anomalies: dict[str, Any] = (
        check_transactions(ops, model, **options).stats["elle"].get("anomalies", {})
    )
    return anomalies


def test_a_dirty_update_begins_with_the_first_aborted_append(build: Build) -> None:
    lines = [(0, "ax1", "fail"), (1, "ax2", "fail"), (2, "ax3"), (3, "rx[1,2,3]")]
    (case,) = found(build(lines))["dirty-update"]
    assert case["values"] == [1, 2, 3]
    assert case["txns"][0]["value"] == [["append", "x", 1]]


def test_a_read_out_of_order_shows_the_state_after_its_last_element(build: Build) -> None:
    # The first append of the history is the first of its list, and an unclean read ends with it.
    lines = [(0, "ax1"), (1, "ax2"), (2, "ax3"), (3, "rx[1,2,3]"), (4, "rx[2,1]")]
    anomalies = found(build(lines))
    assert "incompatible-order" in anomalies
    (case,) = anomalies["G-single-item-realtime"]
    assert [step["type"] for step in case["steps"]] == ["rw", "realtime"]
    assert case["cycle"][0]["value"] == [["r", "x", [2, 1]]]


def test_an_empty_read_beside_a_read_that_repeats_an_element_is_no_error(build: Build) -> None:
    anomalies = found(build([(0, "rx_"), (1, "ax1"), (2, "rx[1,1]")]))
    assert list(anomalies) == ["duplicate-elements"]


@pytest.mark.parametrize("value", [0, 3, 4])
def test_a_value_beyond_those_appended_is_garbage(build: Build, value: int) -> None:
    lines = [(0, "ax1"), (1, "ay1"), (2, "ax2"), (3, f"rx[1,2,{value}]"), (4, "ry[1]")]
    (case,) = found(build(lines))["garbage-read"]
    assert case["element"] == value


@pytest.mark.parametrize(("readers", "more"), [(5, False), (6, True)])
def test_five_doubtful_readers_are_named(build: Build, readers: int, more: bool) -> None:
    begun = [("begin", process, f"rx[1] a{'abcdef'[process]}1") for process in range(readers)]
    ended = [("end", process, f"rx[1] a{'abcdef'[process]}1", "info") for process in range(readers)]
    lines = [(8, "ax1"), (9, "ax2"), (7, "rx[1,2]"), *begun, *ended]
    result = check_transactions(build(lines), "list-append")
    assert result.valid == "unknown"
    assert (", ..." in (result.error or "")) is more


def test_a_component_counts_transactions_without_moments(build: Build) -> None:
    # The first commit is followed by its moment, which is the first one of all.
    lines = [(0, "ax1"), (1, "ax2"), (2, "rx[2,1]")]
    anomalies = found(build(lines), cycle_search_seconds=-1)
    (timeout,) = anomalies["cycle-search-timeout"]
    assert timeout["scc-size"] == 2
    (exists,) = anomalies["strong-PL-1-cycle-exists"]
    assert (exists["scc"], exists["scc-size"]) == ([1, 3], 2)


def test_vertices_at_one_place_may_be_a_cycle() -> None:
    # u and w are moved behind x, and a and b behind them, again and again by the same distance.
    x, u, w, a, b = range(5)
    source, target = np.array([x, x, u, w, a, b]), np.array([u, w, a, b, b, a])
    begin, end = np.array([10, 1, 2, 3, 4]), np.full(5, 20)
    assert {4, 5} <= set(tangled(source, target, begin, end).tolist())


def test_two_edges_back_that_meet_in_a_vertex_may_be_one_cycle() -> None:
    source, target = np.array([0, 2, 1]), np.array([2, 1, 0])
    places = np.array([1, 2, 3])
    assert tangled(source, target, places, places).tolist() == [0, 1, 2]


def test_of_several_cycles_all_edges_are_returned() -> None:
    source, target = np.array([0, 2, 1, 3, 4]), np.array([2, 1, 0, 4, 3])
    places = np.array([1, 2, 3, 5, 6])
    assert tangled(source, target, places, places).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("block", [1, 2, 3, 4])
def test_reads_are_compared_in_blocks_of_any_size(
    build: Build, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(orders, "_BLOCK", block)
    reads = ["rx[1,2,3]", "rx[1]", "rx[1,2]", "rx[2]", "rx[1]", "rx[1,3]", "rx_", "rx[1,2]"]
    ops = build([(0, "ax1"), (1, "ax2"), (2, "ax3"), *enumerate(reads, 3)])
    transactions = read_transactions(ops, "list-append")
    nobody = np.zeros(len(ops), dtype=bool)
    clean = orders.orders_of(transactions, nobody).clean[3:]
    assert clean.tolist() == [read not in ("rx[2]", "rx[1,3]") for read in reads]


@pytest.mark.parametrize(("count", "more"), [(10, ""), (11, " and 1 more")])
def test_ten_micro_operations_are_shown(count: int, more: str) -> None:
    value = [["append", 1, number] for number in range(count)]
    text = op_text({"index": 0, "type": "ok", "value": value})
    assert text.count("[append 1 ") == 10
    assert text.endswith(f"]{more}")


LINE = '{"index": %d, "process": %d, "type": "%s", "f": "txn", "value": [["append", 1, 1]]}\n'


def test_lines_of_one_index_are_left_to_the_reader_that_names_them(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(LINE % (0, 0, "invoke") + LINE % (1, 0, "ok"))
    table = read_history_file(path)
    assert isinstance(table, pa.Table)
    assert table.column("time").to_pylist() == [-1, -1]
    path.write_text(LINE % (1, 0, "invoke") + LINE % (1, 0, "ok"))
    try:
        read = read_history_file(path)
    except HistoryError:
        return
    assert not isinstance(read, pa.Table)


def test_two_rows_out_of_order_are_sorted() -> None:
    ops = [
        Op(index=0, process=0, type="invoke", f="txn", value=[["append", 1, 1]], time=0),
        Op(index=1, process=0, type="ok", f="txn", value=[["append", 1, 1]], time=1),
    ]
    history = read_transactions(to_table(ops[::-1], HISTORY_SCHEMA), "list-append")
    assert history.invoked.tolist() == [-1, 0]


@pytest.mark.parametrize(
    "text",
    [
        '["r",3]',
        '[["append",3,5A]]',
        '[["append",3,:5]]',
        '[["append",3,-]]',
        '[["append",3,5-3]]',
        '[["append",-,5]]',
        '[["append",3,5]',
        '[["append",3',
        '[["append",3,5,6]]',
        '[["append",3,5.5.5]]',
    ],
)
def test_text_that_is_no_transaction_is_refused(text: str) -> None:
    ops = [Op(index=0, process=0, type="ok", f="txn", value=None, time=0)]
    table = to_table(ops, HISTORY_SCHEMA).set_column(5, "value", pa.array([text]))
    with pytest.raises(TransactionError, match="operation 0: "):
        read_transactions(table, "list-append")


@pytest.mark.parametrize(
    "value",
    [
        [["r", None, None]],
        [["append", 3, 10**17]],
        [["append", 3, 10**18 - 1]],
        [["append", 3, 10**18]],
        [["append", 3, 2**63 - 1]],
        [["append", 3, 2**63]],
        [["append", 3, 10**36]],
        [["append", 3, -(10**18)]],
        [["append", 3, 10]],
        [["append", 0, 0]],
        [["append", 9, 9], ["r", 10, [100, 1000]]],
    ],
)
def test_numbers_of_any_length_are_read(value: Any) -> None:
    ops = [Op(index=0, process=0, type="ok", f="txn", value=value, time=0)]
    table = read_transactions(to_table(ops, HISTORY_SCHEMA), "list-append")
    lists = read_transactions(ops, "list-append")
    for place in range(len(value)):
        for history in (table, lists):
            assert history.name_key(int(history.mops.key[place])) == value[place][1]
            shown = [history.name_value(number) for number in history.mops.list_of(place)]
            expected = value[place][2]
            assert shown == (expected if isinstance(expected, list) else [expected][: len(shown)])


def test_reads_of_objects_may_leave_out_what_they_saw() -> None:
    rows: list[tuple[str, str, Any]] = [
        ("ok", "init", {"x": 1}),
        ("ok", "txn", [["r", "x"], ["rp", "true"], ["delete", "x"]]),
        ("ok", "txn", [["insert", "y", 5]]),
    ]
    ops = [
        Op(index=at, process=at, type=kind, f=f, value=value, time=at)  # type: ignore[arg-type]
        for at, (kind, f, value) in enumerate(rows)
    ]
    assert "G1a" not in found(ops, "closed-predicate", consistency_models=["serializable"])


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("rx[1] ax1", ["future-read"]),
        ("rx[7] ax7", ["future-read"]),
        ("ax1 rx[1]", []),
        ("ax1 rx[2]", ["internal"]),
        ("ax1 rx_", ["internal"]),
        ("rx_ ax1 rx[1]", []),
        ("rx_ rx[9]", ["internal"]),
        ("rx[9] rx[9]", []),
        ("rx[9] rx_", ["internal"]),
        ("rx[9] ax1 rx[9,1]", []),
        ("rx[9] ax1 rx[1,9]", ["internal"]),
    ],
)
def test_a_transaction_of_few_operations_contradicts_itself_or_not(
    build: Build, text: str, types: list[str]
) -> None:
    nine = [(1, "az9 ax9")] if "9" in text else []
    for lines in ([*nine, (0, text)], [(0, text), *nine], [(2, "rz_"), *nine, (0, text)]):
        anomalies = found(build(lines))
        assert [name for name in ("internal", "future-read") if name in anomalies] == types


def test_a_history_may_begin_with_the_append_that_a_cycle_begins_with(build: Build) -> None:
    for lines in (at_once("ax1 ay2", "ax2 ay1"), at_once("ax1 ry[1]", "ay1 rx[1]")):
        assert any(
            name.startswith(("G0", "G1c"))
            for name in found(build([*lines, (9, "rx[1,2] ry[1,2]")]))
        )


def test_a_cycle_is_found_beside_a_transaction_that_is_on_longer_ones(build: Build) -> None:
    lines = [*at_once("rx[1] az1", "ax1 ay2", "ax2 ay1"), (9, "rx[1,2] ry[1,2] rz[1]")]
    anomalies = found(build(lines))
    assert [len(case["steps"]) for case in anomalies["G0"]] == [2]


REGISTERS: list[tuple[list[tuple[int, str]], bool]] = [
    # Process 1 saw 1 before 2, process 0 saw 2 before 1.
    ([(1, "wx1"), (0, "wx2"), (0, "rx1 wx3"), (1, "rx2")], True),
    ([(1, "wx1"), (0, "wx2"), (0, "rx2 wx3"), (1, "rx2")], False),
    # Nothing is inferred from a state that was written again.
    ([(1, "wx1"), (0, "wx2"), (2, "rx1 wx_"), (2, "rx2"), (3, "rx2"), (3, "rx1")], False),
]


@pytest.mark.parametrize(("lines", "cyclic"), REGISTERS)
def test_versions_are_ordered_as_processes_met_them(
    build: Build, lines: list[tuple[int, str]], cyclic: bool
) -> None:
    anomalies = found(build(lines), "rw-register", sequential_keys=True)
    assert ("cyclic-versions" in anomalies) is cyclic


@pytest.mark.parametrize(("count", "shown"), [(10, 10), (11, 1)])
def test_of_more_than_ten_micro_operations_those_of_the_keys_are_shown(
    count: int, shown: int
) -> None:
    value = [["append", number, 0] for number in range(count)]
    text = op_text({"index": 0, "type": "ok", "value": value}, [3])
    assert text.count("[append ") == shown


def test_two_cycles_apart_are_two_findings(build: Build) -> None:
    lines = [*at_once("ax1 ay2", "ax2 ay1"), *at_once("az1 aw2 au1", "az2 aw1", "az3 au2 rw[1]")]
    last = [(9, "rx[1,2] ry[1,2]"), (8, "rz[1,2,3] rw[1,2] ru[2,1]")]
    anomalies = found(build([*lines, *last]), consistency_models=["serializable"])
    assert [len(case["steps"]) for case in anomalies["G0"]] == [2, 2]


def test_pairs_of_numbers_too_far_apart_for_one_code_are_found() -> None:
    key = np.array([0, 0, 1, 5])
    value = np.array([-(10**18), 10**18, 7, 10**18])
    pairs = orders.Pairs(key, value)
    assert pairs.find(key, value).tolist() == [0, 1, 2, 3]
    others = np.array([-(10**18) - 1, 10**18 + 1, 8, 7])
    assert pairs.find(key, others).tolist() == [-1, -1, -1, -1]


PLAIN = [
    [["append", 3, 7], ["r", 3, None]],
    [["r", 3, [7]], ["r", 12, []], ["append", -4, -15]],
    [],
    None,
    [["append", 3, 123456789012345678], ["r", -4, [-15]], ["r", 9, [10, 9, -8]]],
]


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("spaces", [False, True])
def test_plain_text_needs_no_decoder(
    monkeypatch: pytest.MonkeyPatch, rows: int, spaces: bool
) -> None:
    monkeypatch.setattr(tokens, "_CHUNK_ROWS", rows)
    encode = json.dumps if spaces else lambda value: msgspec.json.encode(value).decode()
    texts = [None if value is None else encode(value) for value in PLAIN]
    found = tokens.tokens_of(pa.chunked_array([texts], pa.string()), "append", True)
    assert found is not None
    ops = [
        Op(index=at, process=at, type="ok", f="txn", value=value, time=at)
        for at, value in enumerate(PLAIN)
    ]
    expected = read_transactions(ops, "list-append")
    assert found.event.tolist() == expected.mops.event.tolist()
    for place in range(len(found)):
        numbers = [expected.name_value(number) for number in expected.mops.list_of(place)]
        assert list(found.list_of(place)) == numbers
        assert found.key[place] == expected.name_key(int(expected.mops.key[place]))


BROKEN_TEXTS = [
    '[["r",3,[1 2]]]',
    '[["r",3 4,[1,2]]]',
    '[["r",3,[1,,2]]]',
    '[["r",3,[1,2,]]]',
    '[["r",3,[,]]]',
    '[["r",3][1,2]]',
    '[["r",3,[1],2]]',
    '[["r",3,nu ll]]',
    '[["r",3,nlul]]',
    '[["r",03,[1]]]',
    '[["ap pend",5,7]]',
    '[["append",5,7],]',
    '[["append",5,7]],',
    ',[["append",5,7]]',
    '[["append",5,]7]',
    '[["append",5,7]["r",5,null]]',
    '[["append",5,7],,["r",5,null]]',
    "5",
    "",
]


@pytest.mark.parametrize("text", BROKEN_TEXTS)
def test_text_of_another_shape_is_left_to_the_decoder(text: str) -> None:
    texts = ['[["append",3,7]]', text, '[["r",3,[7]]]']
    assert tokens.tokens_of(pa.chunked_array([texts], pa.string()), "append", True) is None


def test_brackets_of_one_row_do_not_close_another() -> None:
    texts = ['[["r",3,[1]]', '],[["r",4,[5]]]']
    assert tokens.tokens_of(pa.chunked_array([texts], pa.string()), "append", True) is None


@pytest.mark.parametrize("spaces", [False, True])
def test_changed_text_is_read_as_the_decoder_reads_it(spaces: bool) -> None:
    """One character is dropped, doubled, replaced or swapped with the next."""
    value = [["append", 3, 7], ["r", 3, [7, -10]], ["r", 12, []], ["r", 4, None]]
    text = json.dumps(value) if spaces else msgspec.json.encode(value).decode()
    read = 0
    for at in range(len(text)):
        for made in (
            text[:at] + text[at + 1 :],
            text[:at] + text[at] + text[at:],
            *(text[:at] + other + text[at + 1 :] for other in '[],"- 0ar'),
            text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :],
        ):
            found = tokens.tokens_of(pa.chunked_array([[made]], pa.string()), "append", True)
            if found is not None:
                right = Numbering("list-append", str)
                right.add(0, msgspec.json.decode(made))
                mops, (key, name) = right.mops(), right.names()
                assert (found.f.tolist(), found.kind.tolist()) == (
                    mops.f.tolist(),
                    mops.kind.tolist(),
                )
                assert found.key.tolist() == list(map(key, mops.key.tolist()))
                assert found.elements.tolist() == list(map(name, mops.elements.tolist()))
                read += 1
    assert read > 20


def predicates(*rows: tuple[str, Any]) -> list[Op]:
    ops: list[Op] = []
    for process, (f, value) in enumerate(rows):
        for kind in ("invoke", "ok"):
            at = len(ops)
            ops.append(Op(index=at, process=process, type=kind, f=f, value=value, time=at))
    return ops


def test_of_two_versions_that_do_not_match_neither_is_selected() -> None:
    read = [["rp", ["=", 2], {}]]
    ops = predicates(
        ("init", {"x": 1}), ("txn", [["w", "x", 2]]), ("txn", [["w", "x", 3]]), ("txn", read)
    )
    assert check_transactions(ops, "closed-predicate").valid is True


def test_a_step_between_two_writes_of_an_object_names_both_values() -> None:
    ops = predicates(
        ("init", {"x": 1, "y": 1}),
        ("txn", [["w", "x", 2], ["w", "y", 2]]),
        ("txn", [["w", "x", 3], ["r", "y", 1]]),
    )
    cases = found(ops, "closed-predicate", consistency_models=["serializable"])["G-single-item"]
    (step,) = [step for step in cases[0]["steps"] if step["type"] == "ww"]
    assert (step["value"], step["value'"]) == (2, 3)


def test_an_operation_without_a_key_is_refused() -> None:
    with pytest.raises(TransactionError, match="no micro-operation is"):
        check_transactions(predicates(("txn", [["r"]])), "closed-predicate")


def test_an_empty_history_of_registers_proves_nothing() -> None:
    assert check_transactions([], "rw-register").valid == "unknown"


def test_an_invocation_may_have_happened_if_its_answer_repeats_nothing() -> None:
    rows: list[tuple[int, Any, Any]] = [
        (0, "invoke", [["append", "x", 1]]),
        (0, "info", None),
        (1, "invoke", [["r", "x", None]]),
        (1, "ok", [["r", "x", [1]]]),
        (2, "invoke", []),
        (2, "ok", []),
    ]
    ops = [
        Op(index=at, process=process, type=kind, f="txn", value=value, time=at)
        for at, (process, kind, value) in enumerate(rows)
    ]
    assert "garbage-read" not in found(ops)


def test_a_part_of_a_column_is_read_from_where_it_begins() -> None:
    assert as_numbers(pa.array(range(100, 109)).slice(2, 3)).tolist() == [102, 103, 104]


# --- the limits of elle-cli ---------------------------------------------------------------------


@pytest.mark.parametrize(("held", "ended"), [(125, False), (126, True)])
def test_a_quarter_more_than_the_heap_may_be_held(
    held: int, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:

        def seen(group: int) -> int:
            assert group == process.pid
            assert process.stdin is not None
            process.stdin.close()  # It ends after this look.
            return held

        monkeypatch.setattr(binding, "_held_megabytes", seen)
        assert (binding._watch(process, Limits(seconds=60, megabytes=100)) is not None) is ended


def test_the_memory_of_a_group_is_counted_in_mebibytes() -> None:
    holding = "held = bytearray(b'x' * (64 << 20)); print('holds', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", holding],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds\n"
        assert 64 <= binding._held_megabytes(process.pid) < 112
        process.communicate(b"\n")
