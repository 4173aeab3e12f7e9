"""Choose the tests for what has changed: ``make check``.

    python -m tests.changed [BASE]

Prints the test files that import a changed module, or a module that imports one, and those that
changed themselves; for other changed files those of the same room. BASE is a commit, by default
HEAD: what is not committed yet.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.test_floors import MODULES, ROOT, files_imported, module_name

ALWAYS = ("tests/test_floors.py", "tests/test_tidy.py", "tests/test_prose.py")


def changed(base: str) -> list[str]:
    """Return the files that differ from ``base``, and those that git does not know yet."""
    listed = [
        subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for words in (
            ("diff", "--name-only", "--diff-filter=d", base),
            ("ls-files", "--others", "--exclude-standard"),
        )
    ]
    return sorted({line for text in listed for line in text.splitlines()})


def imports(paths: Iterable[Path], known: Mapping[str, Path]) -> dict[Path, set[str]]:
    """Return the modules of ``known`` that each of ``paths`` imports."""
    return {path: files_imported(path.read_text(), set(known)) for path in paths}


def chosen(files: Iterable[str]) -> list[str]:
    """Return the test files to run for the changed ``files``, all relative to the root."""
    known = {module_name(path): path for path in MODULES}
    names = {str(path.relative_to(ROOT)): name for name, path in known.items()}
    touched = {names[file] for file in files if file in names}
    neighbours = {
        names[str(path.relative_to(ROOT))]
        for path, found in imports(MODULES, known).items()
        if found & touched
    }
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    found = {
        str(path.relative_to(ROOT))
        for path, used in imports(tests, known).items()
        if used & (touched | neighbours)
    }
    for file in files:
        parts = Path(file).parts
        if file.startswith("tests/") and Path(file).name.startswith("test_"):
            found.add(file)
        elif file not in names and (ROOT / "tests" / parts[0]).is_dir():
            found.update(str(p.relative_to(ROOT)) for p in tests if p.parts[-2] == parts[0])
    return sorted({*ALWAYS, *found})


def main() -> None:
    """Print the test files for what has changed since the commit that is named."""
    print("\n".join(chosen(changed(sys.argv[1] if len(sys.argv) > 1 else "HEAD"))))


if __name__ == "__main__":
    main()
