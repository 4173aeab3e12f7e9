"""Declarations of processes are checked before any host is touched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.harness.deploy.declaration import OutputLine, Place, Process, check, service
from kraftwreck.harness.options import OptionError

GOOD = Process(argv=("/bin/sleep", "5"))
PLACE = Place("n2", 2, "10.0.0.2", "node")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"argv": ()}, "argv not empty"),
        ({"argv": ("sleep",)}, "the program 'sleep' must be an absolute path"),
        ({"argv": ("/bin/a\0b",)}, "NUL"),
        ({"folders": ("/",)}, "'/' must be an absolute path, at least two folders deep"),
        ({"folders": ("/etc",)}, "'/etc' must be an absolute path"),
        ({"folders": ("/var/lib/../..",)}, "without '..'"),
        ({"files": {"etc/x": ""}}, "'etc/x' must be an absolute path"),
        ({"ports": {"client": 70000}}, "ports must be from 1 to 65535"),
        ({"stop_signal": "SIGSTOP"}, "stop_signal 'SIGSTOP' must be one of SIGTERM"),
        ({"user": "a b"}, "'a b' is not a user name"),
        ({"ready": OutputLine("(")}, "is not a regular expression"),
        ({"name": "main"}, "not 'main'"),
        ({"name": "../x"}, "is not a process name"),
    ],
)
def test_mistakes_are_one_line_with_the_process(changes: dict[str, Any], message: str) -> None:
    wrong = replace(GOOD, **{"name": "", **changes})
    both = [wrong] if not wrong.name else [GOOD, wrong]
    with pytest.raises(OptionError, match=r"^n2.*: ") as raised:
        check("n2", both)
    assert message in str(raised.value)


def test_a_host_has_one_main_process_and_it_comes_first() -> None:
    guard = replace(GOOD, name="guard")
    assert check("n2", [guard, GOOD]) == (GOOD, guard)
    for wrong in ([], [guard], [GOOD, GOOD], [GOOD, guard, guard]):
        with pytest.raises(OptionError, match=r"^n2"):
            check("n2", wrong)


def test_a_service_has_names_and_paths_of_its_process() -> None:
    made = service(PLACE, replace(GOOD, name="guard"), squeezable=True)
    assert made["name"] == "n2/guard"
    assert made["log"] == "/var/log/kraftwreck/guard/stdout.log"
    assert (made["squeezable"], made["group"]) == (True, "guard")
    assert service(PLACE, GOOD, squeezable=True)["group"] == "main"
    assert "squeezable" not in service(PLACE, GOOD)
