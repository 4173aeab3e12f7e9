"""Modules of the systems of docs/wild.md, which import each other by their own names."""

from __future__ import annotations

import sys

from bench.wild import SYSTEMS

sys.path.append(str(SYSTEMS))
