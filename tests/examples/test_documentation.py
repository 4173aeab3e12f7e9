"""The page on embedding quotes the example unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUOTES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/embedding.md").read_text(), re.S)
CODE = "\n".join(p.read_text() for p in sorted((ROOT / "examples/lock_service").glob("*.py")))


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: quote.strip().splitlines()[0][:40])
def test_quotes_on_the_page_are_from_the_example(quote: str) -> None:
    assert quote in CODE
    assert len(QUOTES) > 5
