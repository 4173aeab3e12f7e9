"""Calls of clocks in tests are found; ``tests/test_tidy.py`` holds that each has its reason."""

from __future__ import annotations

from pathlib import Path

from tests.wall_clock import places_in


def test_a_clock_is_found_wherever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(
        "import time, asyncio, pytest\n"
        "def test_one():\n    time.sleep(1)\n"
        "@pytest.mark.wall_clock('it is a clock')\ndef test_two():\n    time.monotonic()\n"
        "class Three:\n    async def f(self):\n        await asyncio.sleep(0.1)\n"
        "async def test_turns():\n    await asyncio.sleep(0)\n"
        "from time import perf_counter\n"
        "def test_cpu():\n    time.process_time()\n"
    )
    assert [(place.name, place.reason) for place in places_in(path)] == [
        ("test_one", None),
        ("test_two", "it is a clock"),
        ("Three", None),
        ("the module", None),
    ]
