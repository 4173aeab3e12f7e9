"""Write the list of all columns in docs/tables.md.

python -m kraftwreck.pipeline.tables_page
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kraftwreck.pipeline.schemas import FLEET, PER_RUN, SILVER, columns

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tables.md"
MARK = "<!-- what follows is written by python -m kraftwreck.pipeline.tables_page -->"


def listing() -> str:
    """Return the list as Markdown."""
    parts = [
        _part("Silver", SILVER),
        _part("Gold, rows of single runs", PER_RUN),
        _part("Gold, over all runs", FLEET),
    ]
    return "\n".join(parts)


def _part(title: str, tables: dict[str, pa.Schema]) -> str:
    lines = [f"## {title}", ""]
    for name, schema in tables.items():
        lines += [f"### {name}", "", schema.metadata[b"about"].decode(), ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{column}` | {kind} | {about} |" for column, kind, about in columns(schema)]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Replace the list after the mark."""
    head = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n{listing()}")


if __name__ == "__main__":
    main()
