"""The tables are documented as they are."""

from __future__ import annotations

from kraftwreck.pipeline.gold_frames import ddl
from kraftwreck.pipeline.schemas import GOLD, SILVER, columns
from kraftwreck.pipeline.tables_page import MARK, PAGE, listing


def test_the_page_lists_every_column() -> None:
    _, _, written = PAGE.read_text().partition(MARK)
    assert written.strip() == listing().strip(), "run python -m kraftwreck.pipeline.tables_page"


def test_every_table_opens_in_spark_with_descriptions() -> None:
    for name, schema in SILVER.items():
        assert ddl(f"silver/{name}").count(",") >= len(schema) - 1
    for name, schema in GOLD.items():
        assert ddl(name).startswith("`")
        assert all(meaning for _, _, meaning in columns(schema))
