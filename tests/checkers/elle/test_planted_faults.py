"""Faults planted in the checker itself: the tests beside this one catch each of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kraftwreck.harness.patched_nodes import overlay

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
JUDGES = (
    "test_models",
    "test_append",
    "test_register",
    "test_predicates",
    "test_columns",
    "test_brute_force",
)

FAULTS = [
    ("models.py", '"G1c": ("G1",)', '"G1c": ()'),
    ("models.py", '("G-SI", "G-nonadjacent", ', '("G-SI", '),
    ("models.py", '"update-atomic": ("lost-update",)', '"update-atomic": ()'),
    ("transactions.py", "(kind == OK) | (kind == INFO)", "(kind == OK)"),
    ("transactions.py", "invoked[order[ends]] = order[ends - 1]", "pass"),
    ("orders.py", "np.where(size > 0, mops.start[longest], 0)", "np.where(size > 0, 0, 0)"),
    ("orders.py", "clean[some[np.searchsorted", "0 * clean[some[np.searchsorted"),
    ("orders.py", "kept[order[1:][same]] = False", "kept[order[1:][same]] = True"),
    ("orders.py", "(times[key[at]] == 1)", "(times[key[at]] >= 1)"),
    ("append_anomalies.py", "(self._kind == FAIL) & (self._mops.f == WRITE)",
     "(self._kind == INFO) & (self._mops.f == WRITE)"),
    ("append_anomalies.py", "if mops.event[writer_mop] == mops.event[read]:", "if True:"),
    ("append_anomalies.py", "if tail != known:", "if tail == known:"),
    ("append_anomalies.py", "if n > 1}", "if n > 2}"),
    ("append_anomalies.py", "elif kind == FAIL and dirty < 0:", "elif False:"),
    ("append_anomalies.py", "if len(together) > 1:", "if len(together) > 2:"),
    ("grouping.py", "(place < 0) | (place != count[end] - 1 - after)", "(place < 0)"),
    ("grouping.py", "marked[self.lasts_of(wanted)] = False", "marked[:] = False"),
    ("grouping.py", "(place >= 0) & (place < longest)", "(place > 0) & (place < longest)"),
    ("append_graph.py", "np.where(place >= 0, place, orders.size[key]) - 1", "place - 1"),
    ("append_graph.py", "event[self._appends[have]], WW)", "event[self._appends[have]], WR)"),
    ("append_graph.py", "parts.append((event[readers], event[appends], RW))", "pass"),
    ("graph.py", "(moment[:-1], moment[1:], REALTIME)", "(moment[1:], moment[:-1], REALTIME)"),
    ("graph.py", "np.searchsorted(ok, at) - 1", "np.searchsorted(ok, at) - 2"),
    ("graph.py", "same = process[order][1:] == process[order][:-1]",
     "same = process[order][1:] != process[order][:-1]"),
    ("components.py", "low[vertex] == number[vertex]", "low[vertex] <= number[vertex] - 1"),
    ("components.py", "place[source] >= place[target])", "place[source] > place[target] + 1)"),
    ("component.py", "if apart and not after_rw and kinds & rw:", "if apart and kinds & rw:"),
    ("cycles.py", "adjacent = any(first and second", "adjacent = all(first and second"),
    ("cycles.py", "if sum(crossings) == 1:", "if sum(crossings) == 2:"),
    ("cycles.py", "known |= implied([cycle.type])", "known |= {cycle.type, 'G2-item'}"),
    ("register_graph.py", "read_from[version[own.reads] < len(own.keys)] = -1",
     "read_from[:] = -1"),
    ("register_graph.py", "((own.writes, WW), (own.reads, RW))", "((own.writes, WW),)"),
    ("register_versions.py", "first[at[telling]] = own.version[telling]", "pass"),
    ("register_versions.py", "ends[other] > begin]", "ends[other] < begin]"),
    ("register_versions.py", "& ~own.emptied[before]", ""),
    ("register_anomalies.py", "version[1:] != version[:-1]", "version[1:] == version[:-1]"),
    ("register_anomalies.py", "(kind == FAIL)", "(kind != FAIL)"),
    ("predicates.py", "if len(left) <= 1:", "if len(left) < 1:"),
    ("predicates.py", "matches(predicate, version) != matches",
     "matches(predicate, item) != matches"),
    ("predicates.py", "return DEAD if dead else UNBORN", "return UNBORN"),
    ("tokens.py", "numbers[longer] * 10", "numbers[longer] * 8"),
    ("tokens.py", "numbers[negative] *= -1", "pass"),
    ("reading.py", "if repeated is not None:", "if False:"),
    ("check.py", "valid: Validity = False if wanted & found.keys() else",
     "valid: Validity = False if found else"),
    ("check.py", "weakest, stronger = models.boundary(found)\n    valid",
     "weakest, stronger = models.boundary(shown)\n    valid"),
]  # fmt: skip


def test_every_fault_is_one_replacement() -> None:
    for name, old, new in FAULTS:
        assert (ROOT / "checkers" / "elle" / name).read_text().count(old) == 1, (name, old)
        assert old != new


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_a_planted_fault_is_caught(tmp_path: Path, number: int) -> None:
    name, old, new = FAULTS[number]
    copy = overlay(tmp_path) / "checkers"
    shutil.copytree(ROOT / "checkers", copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / "elle" / name
    text = path.read_text()
    path.write_text(text.replace(old, new, 1))
    # Compiled code would be compiled again for every copy.
    arguments = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    arguments += ["-k", "not networkx_finds"]
    done = subprocess.run(
        [sys.executable, *arguments, *(str(HERE / f"{judge}.py") for judge in JUDGES)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, f"{name}: {old!r} -> {new!r} was not caught\n{done.stdout[-400:]}"
