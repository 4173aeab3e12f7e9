"""The seeds of a campaign, as the user writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count

from kraftwreck.harness.options import OptionError

_SEED = re.compile("[0-9]{1,18}")


def parse_seeds(text: str) -> Iterable[int]:
    """Return the seeds in ``A..B`` (inclusive), ``A..`` (endless) or ``A``.

    Raises :class:`OptionError`.
    """
    first, dots, last = text.partition("..")
    if not _SEED.fullmatch(first) or (last and not _SEED.fullmatch(last)):
        raise OptionError(f"--seeds {_shown(text)}: give A..B, such as 0..999")
    if not dots:
        return range(int(first), int(first) + 1)
    if not last:
        return count(int(first))
    if int(last) < int(first):
        raise OptionError(f"--seeds {text!r}: {last} is before {first}")
    return range(int(first), int(last) + 1)


def _shown(text: str) -> str:
    """Return ``text`` in quotes, shortened to fit on a line."""
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
