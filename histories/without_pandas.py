"""Arrow without pandas.

Arrow imports an installed pandas when it is first given a list. That takes one and a half seconds
of a CPU, more than the check of a million operations. Spark's client needs pandas, but a program
that only reads histories does not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _Refusing(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise ImportError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)


def leave_pandas_out() -> None:
    """Hide pandas from Arrow for the life of this process.

    Does nothing if pandas is imported already. Other modules may import it later on.
    """
    if "pandas" in sys.modules:
        return
    refusing = _Refusing()
    sys.meta_path.insert(0, refusing)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(refusing)
