"""The common parts of the store's pages: frame, style, script, and their content policy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from kraftwreck.reports.page import ASSETS, environment, policy, style
from kraftwreck.reports.store.links import Links


@dataclass(frozen=True)
class Page:
    """A page and the content security policy with which it must be sent."""

    text: str
    policy: str


def store_style() -> str:
    """Return the style sheet of the store's pages, which includes that of all pages."""
    return style() + (ASSETS / "store.css").read_text(encoding="utf-8")


def render(
    template: str, *, title: str, links: Links, scripts: tuple[str, ...] = (), **values: Any
) -> Page:
    """Return ``template`` rendered with ``values``; ``scripts`` are assets, run in this order."""
    css = store_style()
    script = _script(scripts) if scripts else None
    allowed = policy(css, script)
    text = (
        _templates()
        .get_template(template)
        .render(
            title=title,
            links=links,
            css=Markup(css),  # noqa: S704 - our own asset
            script=None if script is None else Markup(script),  # noqa: S704 - our own asset
            policy=allowed,
            **values,
        )
    )
    return Page(text, f"{allowed}; frame-ancestors 'none'")


@cache
def _templates() -> Environment:
    return environment()


@cache
def _script(names: tuple[str, ...]) -> str:
    parts = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)
    if "</script" in parts.lower():
        raise ValueError("an asset would end its own script element")
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'
