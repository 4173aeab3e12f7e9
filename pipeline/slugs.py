"""File names for runs."""

from __future__ import annotations

import re
from hashlib import blake2b


def slug(run: str) -> str:
    """Return a file name for a run that every file system and Spark can read."""
    digest = blake2b(run.encode(), digest_size=3).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', run)}-{digest}"
