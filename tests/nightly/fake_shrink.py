"""Stands for ``kraftwreck shrink CASE … --save FOLDER --name NAME``: writes the file, logs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

arguments = sys.argv[1:]
folder = Path(arguments[arguments.index("--save") + 1])
(folder / f"{arguments[arguments.index('--name') + 1]}.json").write_text("{}")
with Path(os.environ["FAKE_RULES"]).with_name("shrunk.log").open("a") as file:
    file.write(" ".join(arguments) + "\n")
