"""Every test is run by a stage of continuous integration."""

from __future__ import annotations

import pytest

from tests.stages import LONG, Selection, default_markers, selections, stages_of, targets


def test_make_test_is_pytest_without_an_expression() -> None:
    assert Selection("test", default_markers()) in selections()


@pytest.mark.parametrize(
    ("path", "markers", "stages"),
    [
        ("tests/nemesis/test_storms.py", (), ["test-compiled", "test"]),
        ("tests/cli/test_run.py", ("cluster", "slow"), ["test"]),
        ("tests/cli/test_run.py", ("cluster", "whole_run"), ["test-whole"]),
        ("tests/simulation/test_world.py", ("many_runs",), ["test-compiled"]),
        ("tests/simulation/test_world.py", ("many_runs", "interpreted"), ["test-compiled"]),
        ("tests/cli/test_run.py", ("many_runs",), []),
        ("tests/checkers/elle/test_graph.py", ("many_runs",), []),
        ("tests/oracle/test_dump.py", ("oracle",), ["test-oracle"]),
        ("tests/oracle/test_dump.py", ("oracle", "whole_run"), ["test-whole", "test-oracle"]),
        ("tests/vagrant/test_by_docker.py", ("vagrant",), ["vagrant-test"]),
        ("tests/vagrant/test_by_lxc.py", ("vagrant",), []),
        ("tests/mutants/test_mutants.py", ("campaign",), []),
    ],
)
def test_stages_follow_from_markers_and_folders(
    path: str, markers: tuple[str, ...], stages: list[str]
) -> None:
    assert stages_of(path, frozenset(markers)) == stages


def test_each_stage_with_tests_has_a_selection() -> None:
    assert {each.stage for each in selections()} == set(targets()) - {"test-hosts"}


def test_markers_that_may_be_left_out_are_in_no_stage_of_all_folders() -> None:
    everywhere = [each for each in selections() if not each.paths]
    for marker in LONG:
        assert not any(each.has("tests/x.py", frozenset({marker})) for each in everywhere)
