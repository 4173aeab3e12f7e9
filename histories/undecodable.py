"""The exceptions that decoding JSON from a damaged or foreign file can raise."""

from __future__ import annotations

import msgspec

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Not JSON or not the expected shape; not UTF-8; nested too deep for the decoder."""
