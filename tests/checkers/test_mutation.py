"""``bench.checker_mutants`` mutates constants, bounds and comparisons of checkers."""

from __future__ import annotations

import ast
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import cast

import hypothesis
import pytest

from bench import checker_mutants
from bench.mutation.globals import bindings, rebind
from bench.mutation.outcomes import Outcomes
from bench.mutation.places import ROOT, Mutant, mutants_of, mutate, places, value_of
from bench.mutation.reach import Reached, SameExamples, reaching, uses
from bench.mutation.swap import functions, import_judges, replacements, swap
from kraftwreck.checkers import findings
from kraftwreck.checkers.calls import Call

pytestmark = pytest.mark.interpreted  # It replaces the code of functions.

SOURCE = """
LIMIT = 10
LONG = 3 * LIMIT
ENDLESS = 1 << 62


def late(times: list[int], end: int) -> bool:
    if max(times) * 3 // 2 < end + 5:
        return len(times) >= 2
    raise ValueError(f"{len(times) > 7}")


def span(settings: dict[str, int]) -> int:
    return settings.get("most", 7) - settings.get("least", -1)
"""


def test_places_are_found_outside_of_messages() -> None:
    found = [(kind, scope, text) for _, kind, scope, text, _ in places(ast.parse(SOURCE))]
    assert found == [
        ("constant", "LIMIT", "10"),
        ("constant", "LONG", "3 * LIMIT"),
        ("constant", "ENDLESS", "1 << 62"),
        ("comparison", "late", "max(times) * 3 // 2 < end + 5"),
        ("factor", "late", "max(times) * 3"),
        ("factor", "late", "max(times) * 3 // 2"),
        ("bound", "late", "end + 5"),
        ("comparison", "late", "len(times) >= 2"),
        ("bound", "late", "len(times) >= 2"),
        ("bound", "span", "settings.get('most', 7)"),
    ]


@pytest.mark.parametrize(
    ("index", "kind", "change", "expected"),
    [
        (0, "constant", "halved", "LIMIT = 5"),
        (1, "constant", "doubled", "LONG = 6 * LIMIT"),
        (3, "comparison", "Lt to LtE", "if max(times) * 3 // 2 <= end + 5:"),
        (4, "factor", "doubled", "if max(times) * 6 // 2 < end + 5:"),
        (5, "factor", "halved", "if max(times) * 3 // 1 < end + 5:"),
        (6, "bound", "doubled", "if max(times) * 3 // 2 < end + 10:"),
        (8, "bound", "halved", "return len(times) >= 1"),
    ],
)
def test_a_mutant_has_one_change(index: int, kind: str, change: str, expected: str) -> None:
    tree = mutate(SOURCE, Mutant("a.py", kind, index, "", "", change, 0, 0, 1))
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    after = ast.unparse(tree).splitlines()
    assert [line.strip() for line in after if line not in before] == [expected]


def mutant_of(path: str, scope: str, change: str) -> Mutant:
    found = [m for m in mutants_of(ROOT / path) if m.scope == scope and m.change == change]
    return found[0]


def test_a_mutant_is_put_into_an_imported_function_and_taken_out_again() -> None:
    mutant = mutant_of("checkers/calls.py", "Call.indices", "Lt to LtE")
    function = vars(Call)["indices"].fget
    assert isinstance(function, FunctionType)
    before = function.__code__
    try:
        assert swap(functions()[mutant.path], replacements(mutant)) == 1
        assert function.__code__.co_code != before.co_code
    finally:
        function.__code__ = before


def test_modules_that_are_imported_when_they_are_used_have_functions_too() -> None:
    import_judges()
    found = functions()
    for path in (ROOT / "checkers").rglob("kernels.py"):
        assert found[str(path.relative_to(ROOT))]


def test_no_trial_depends_on_chance_or_on_a_busy_machine() -> None:
    name = hypothesis.settings.get_current_profile_name()
    try:
        SameExamples().pytest_configure()
        now = hypothesis.settings.default
        assert now is not None
        assert now.derandomize
        assert now.deadline is None
        assert set(now.suppress_health_check) == set(hypothesis.HealthCheck)
    finally:
        hypothesis.settings.load_profile(name)


def test_a_constant_of_a_module_cannot_be_put_into_its_functions() -> None:
    assert replacements(mutant_of("checkers/findings.py", "KEPT", "doubled")) == {}


def test_a_constant_gets_another_value_where_functions_alone_use_it() -> None:
    bound = bindings(mutant_of("checkers/findings.py", "KEPT", "doubled"))
    assert bound is not None
    try:
        assert rebind(bound, 20) >= 1
        assert findings.KEPT == 20
    finally:
        rebind(bound, 10)
    # Code outside of functions uses this one.
    assert bindings(mutant_of("checkers/kraft/limits.py", "ELECTED_US", "doubled")) is None


def test_a_limit_of_the_simulator_is_used_by_its_rules() -> None:
    rules = "systems/kraft/simulated/invariants.py"
    assert rules in uses("RESIGNED_US")
    bound = bindings(mutant_of("checkers/kraft/limits.py", "RESIGNED_US", "doubled"))
    assert bound is not None
    assert bound[ROOT / rules] == {"RESIGNED_US"}


def test_a_constant_may_be_made_from_others_of_its_module() -> None:
    limit = mutant_of("checkers/kraft/limits.py", "CAUGHT_UP_US", "halved")
    assert value_of(limit) == 150_000_000


def test_a_default_that_is_made_from_a_constant_is_used_by_its_whole_class() -> None:
    lines = uses("SEARCH_SECONDS")["checkers/elle/check.py"]
    source = (ROOT / "checkers/elle/check.py").read_text().splitlines()
    assert any("supported.forbidden(" in source[line - 1] for line in lines)


@pytest.mark.parametrize("shares", [False, True])
def test_tests_that_reach_the_line_run_and_others_that_share_a_fixture_with_them(
    tmp_path: Path, shares: bool
) -> None:
    (tmp_path / "a.py").write_text('@pytest.fixture(scope="module")' if shares else "")
    mutant = mutant_of("checkers/calls.py", "Call.indices", "Lt to LtE")
    lines = {mutant.path: [mutant.line]}
    reached = {
        "a.py::other": Reached(0.1, True, {}),
        "a.py::slow": Reached(0.9, True, lines),
        "a.py::quick": Reached(0.2, True, lines),
        "a.py::failing": Reached(0.0, False, lines),
        "b.py::unrelated": Reached(0.1, True, {mutant.path: [mutant.line + 100]}),
    }
    items = [
        cast("pytest.Item", SimpleNamespace(nodeid=name, path=tmp_path / name.partition("::")[0]))
        for name in reached
    ]
    found = [item.nodeid for item in reaching({mutant.path: {mutant.line}}, items, reached)]
    assert found == ["a.py::quick", "a.py::slow", *["a.py::other"] * shares]


def test_every_equivalent_mutant_exists() -> None:
    checker_mutants.equivalents(checker_mutants.all_mutants())


def test_the_score_leaves_out_equivalent_mutants() -> None:
    keys = [f"checkers/a.py :: f :: comparison :: x < {n} :: Lt to LtE :: 1" for n in range(5)]
    outcomes = dict(zip(keys, (True, True, False, False, None), strict=True))
    page = checker_mutants.page(outcomes, {keys[3]: "It is the same."})
    assert "| checkers/a.py | comparison | 5 | 4 | 1 | 2 | 67 % |" in page
    survivors, _, same = page.partition("## Survivors")[2].partition("## Equivalent mutants")
    assert "x < 2" in survivors and "x < 3" not in survivors
    assert "- It is the same.\n  - `checkers/a.py` f, comparison: `x < 3` Lt to LtE" in same


def test_the_watches_of_the_simulator_have_a_score_of_their_own() -> None:
    of_checker = "checkers/a.py :: f :: comparison :: x < 1 :: Lt to LtE :: 1"
    of_watch = "systems/kraft/simulated/a_watch.py :: f :: bound :: 2 in x < 2 :: doubled :: 1"
    page = checker_mutants.page({of_checker: True, of_watch: False}, {})
    checkers, _, watches = page.partition("## The watches of the simulator")
    assert "| checkers/a.py | comparison | 1 | 1 | 0 | 1 | 100 % |" in checkers
    assert "| systems/kraft/simulated/ | bound | 1 | 1 | 0 | 0 | 0 % |" in watches
    assert "simulated" not in checkers
    assert "The watches" not in checker_mutants.page({of_checker: True, of_watch: None}, {})


RULE = """
LEAST = 3


def late(time: int) -> bool:
    \"\"\"Whether it is late.\"\"\"
    return time > 5


def early(time: int) -> bool:
    return time < LEAST
"""


def test_an_outcome_holds_while_the_function_around_it_stays_the_same(tmp_path: Path) -> None:
    rule, path = tmp_path / "rule.py", tmp_path / "outcomes.txt"

    def read(source: str) -> tuple[list[Mutant], Outcomes]:
        rule.write_text(source)
        found = mutants_of(rule, tmp_path)
        return found, Outcomes(path, found)

    def known(source: str) -> dict[str, list[bool | None]]:
        mutants, outcomes = read(source)
        scopes = dict.fromkeys(mutant.scope for mutant in mutants)
        return {
            scope: [outcomes.of(mutant.key) for mutant in mutants if mutant.scope == scope]
            for scope in scopes
        }

    mutants, outcomes = read(RULE)
    for number, mutant in enumerate(mutants):
        outcomes.note(mutant.key, number != 2)
    tried = {"LEAST": [True, True], "late": [False, True, True], "early": [True]}
    assert known(RULE) == tried
    assert (
        known(RULE.replace("Whether it is", "Is it").replace("LEAST = 3", "\n\nLEAST = 3")) == tried
    )
    changed = known(RULE.replace("time > 5", "time > 5 or not time"))
    assert changed == {**tried, "late": [None] * 3}
    assert known(RULE.replace("LEAST = 3", "LEAST = 4")) == {**tried, "LEAST": [None] * 2}


def test_two_sessions_keep_the_outcomes_of_each_other(tmp_path: Path) -> None:
    rule, path = tmp_path / "rule.py", tmp_path / "outcomes.txt"
    rule.write_text(RULE)
    mutants = mutants_of(rule, tmp_path)
    sessions = Outcomes(path, mutants), Outcomes(path, mutants)
    for number, mutant in enumerate(mutants):
        sessions[number % 2].note(mutant.key, True)
    kept = Outcomes(path, mutants)
    assert all(kept.of(mutant.key) for mutant in mutants)


def test_outcomes_of_code_that_is_gone_are_dropped(tmp_path: Path) -> None:
    rule, path = tmp_path / "rule.py", tmp_path / "outcomes.txt"
    rule.write_text(RULE)
    mutants = mutants_of(rule, tmp_path)
    outcomes = Outcomes(path, mutants)
    for mutant in mutants:
        outcomes.note(mutant.key, True)
    assert len(path.read_text().splitlines()) == 3
    Outcomes(path, [mutant for mutant in mutants if mutant.scope != "late"]).write()
    assert [line.split()[1] for line in path.read_text().splitlines()] == ["LEAST", "early"]
