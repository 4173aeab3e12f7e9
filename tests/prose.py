"""Find riddles and long sentences in the text that people read.

    python -m tests.prose [FOLDER ...]

Text is every docstring (also those of attributes), every string literal of at least four words
outside of tests, and every Markdown file. Code in Markdown and docstrings is left out.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.test_tidy import ROOT, tracked

LONGEST_SENTENCE = 35
"""Words."""

PATTERNS = {
    "a clause as a noun": re.compile(
        r"(?:^|[.:;] )(?:Who|Whoever|Whom|What|Whose)\b(?![^.!?]*\?)", re.MULTILINE
    ),
    "told": re.compile(r"\b(?:is|are|was|were|been) told\b"),
    "tell": re.compile(r"\btells?\b"),
    "an old phrase": re.compile(r"\b(?:of late|in vain|anew|any more)\b"),
    "no more": re.compile(r"\bno more\b(?! than)"),
    "go by, go on": re.compile(r"\b(?:goes|go|went) (?:by|on)\b"),
    "stand in": re.compile(r"\bstands? (?:in|at|on|there)\b"),
    "whom": re.compile(r"\b(?:whom|whoever|whomever)\b"),
}
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`(*\"'0-9])")
_CODE = re.compile(r"``.*?``|`[^`\n]*`|<[^>\n]*>|\]\([^)\n]*\)", re.DOTALL)
_FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LITERAL = re.compile(r"(?:(?<=::\n\n)(?:(?: +.*)?\n)+)")
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*#|]|\d+\.)\s?)")
_FEWEST_WORDS = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """A place whose text should be rewritten: ``pattern`` is a key of PATTERNS, or a length."""

    path: Path
    line: int
    pattern: str
    text: str

    def __str__(self) -> str:
        where = f"{self.path.relative_to(ROOT)}:{self.line}"
        return f"{where}: {self.pattern}: {' '.join(self.text.split())[:160]}"


def in_markdown(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the blocks of a Markdown file with their line numbers; table cells one by one."""
    text = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), path.read_text())
    start = 0
    for end in [*(found.end() for found in _BLOCK.finditer(text)), len(text)]:
        block = text[start:end]
        line = text.count("\n", 0, start + len(block) - len(block.lstrip())) + 1
        cells = block.strip().strip("|").split(" | ") if block.lstrip().startswith("|") else [block]
        for cell in cells:
            yield line, cell.strip().lstrip("-*# ")
        start = end


def in_python(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module, and, outside of tests, its longer string literals."""
    tree = ast.parse(path.read_text())
    docstrings: set[int] = set()
    messages = path.relative_to(ROOT).parts[0] not in ("tests", "bench")
    within: set[int] = set()
    for node in _walk(tree):
        if isinstance(node, ast.Expr):
            docstrings.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            within.update(id(part) for part in ast.walk(node))
            if messages:
                yield node.lineno, _plain(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docstrings:
                text = _LITERAL.sub("\n", node.value + "\n")
                for found in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
                    yield node.lineno, found.strip()
            elif messages and id(node) not in within and len(node.value.split()) >= _FEWEST_WORDS:
                yield node.lineno, node.value


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes, parents before children. :func:`ast.walk` needs three times as long."""
    nodes = [tree]
    for node in nodes:
        yield node
        for value in vars(node).values():
            if isinstance(value, list):
                nodes += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                nodes.append(value)


def _plain(joined: ast.JoinedStr) -> str:
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "X" for part in joined.values
    )


def findings(path: Path) -> Iterator[Finding]:
    """Yield what should be rewritten in a Python or Markdown file."""
    texts = in_markdown(path) if path.suffix == ".md" else in_python(path)
    for line, text in texts:
        prose = _CODE.sub("X", text)
        for name, pattern in PATTERNS.items():
            for found in pattern.finditer(prose):
                yield Finding(path, line, name, prose[max(0, found.start() - 40) :])
        if path.suffix == ".md" or not _is_program(text):
            for sentence in SENTENCE_END.split(prose):
                words = sum(any(c.isalpha() for c in word) for word in sentence.split())
                if words > LONGEST_SENTENCE:
                    yield Finding(path, line, f"{words} words", sentence)


def _is_program(text: str) -> bool:
    """Whether ``text`` is a script, a page or a table in another language than English."""
    return bool(re.search(r"[{};]\n|^\s*(?:<|import |from |def |SELECT )", text, re.MULTILINE))


def main() -> None:
    """Print the findings below the folders named, or in the whole tree."""
    folders = [str(Path(word).resolve().relative_to(ROOT)) for word in sys.argv[1:]]
    patterns = [f"{f}/*.{s}" if not f.endswith(("py", "md")) else f
                for f in folders for s in ("py", "md")] or ["*.py", "*.md"]  # fmt: skip
    count = 0
    for path in dict.fromkeys(tracked(*patterns)):
        for found in findings(path):
            count += 1
            print(found)
    print(f"{count} findings")


if __name__ == "__main__":
    main()
