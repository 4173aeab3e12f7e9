"""Common parts of all pages: escaping templates, the style, and a policy without network."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from kraftwreck.reports import tables, words

ASSETS = Path(__file__).parent / "assets"


def environment() -> Environment:
    """Return the template environment, which escapes everything not marked as safe."""
    templates = Environment(
        loader=PackageLoader("kraftwreck.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["seconds"] = words.seconds_text
    templates.filters["pretty"] = tables.pretty
    templates.filters["brief"] = tables.brief
    return templates


def style() -> str:
    """Return the style sheet of all pages."""
    return (ASSETS / "report.css").read_text(encoding="utf-8")


def policy(css: str, script: str | None = None) -> str:
    """Return a content security policy that allows this style and script, and no network."""

    def source(text: str) -> str:
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    scripts = f"script-src {source(script)}; " if script else ""
    return (
        f"default-src 'none'; style-src {source(css)}; {scripts}base-uri 'none'; form-action 'none'"
    )
