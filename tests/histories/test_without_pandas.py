"""Reading a history does not import pandas, and users can still import it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from kraftwreck.histories.without_pandas import leave_pandas_out
leave_pandas_out()
import pyarrow as pa
assert pa.array(["a", None]).to_pylist() == ["a", None]
assert "pandas" not in sys.modules
import pandas
leave_pandas_out()
assert pandas.DataFrame({"a": [1]}).a.sum() == 1
"""


def test_arrow_does_without_pandas() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=300)
