"""Text that people read is plain English: subject, verb, object, and the nouns of the field."""

from __future__ import annotations

from pathlib import Path

from tests.prose import findings, in_markdown
from tests.test_tidy import tracked


def found_in(tmp_path: Path, name: str, text: str) -> list[str]:
    path = tmp_path / name
    path.write_text(text)
    return [finding.pattern for finding in findings(path)]


def test_prose_is_plain() -> None:
    found = [str(each) for path in tracked("*.py", "*.md") for each in findings(path)]
    assert found == []


def test_riddles_are_found(tmp_path: Path) -> None:
    said = [
        ("Who leads hands over.", ["a clause as a noun"]),
        ("Who leads? It says so.", []),
        ("It is told so, and tells others.", ["told", "tell"]),
        ("No more than 3 of them; no more of it.", ["no more"]),
        ("The clock goes on, and rule 3 stands in the table.", ["go by, go on", "stand in"]),
        ("It asks in vain for `no more tells`.", ["an old phrase"]),
        ("word " * 36 + ".", ["36 words"]),
        ("```\nWho tells?\n```\n", []),
    ]
    for text, expected in said:
        assert found_in(tmp_path, "a.md", text) == expected, text


def test_blocks_of_markdown_have_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# One\n\ntext\nmore\n\n- item\n- other\n| a | b |\n")
    assert list(in_markdown(path)) == [
        (1, "One"), (3, "text\nmore"), (6, "item"), (7, "other"), (8, "a"), (8, "b"),
    ]  # fmt: skip
