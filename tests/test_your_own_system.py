"""The tutorial docs/your-own-system.md, word by word."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from kraftwreck import api
from tests import tutorial

INSTALL, *RUNS = tutorial.commands()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables of a shell with an environment of its own, with the package in it."""
    folder = tmp_path_factory.mktemp("tutorial")
    tutorial.write(folder)
    own = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True)
    below = own / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    paths = [sysconfig.get_paths()["purelib"], *map(str, _editable())]
    (below / "kraftwreck-and-all-it-needs.pth").write_text("\n".join(paths) + "\n")
    command = own / "bin/kraftwreck"
    command.write_text(f'#!/bin/sh\nexec {own}/bin/python -m kraftwreck "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(own / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(own), "UV_NO_BUILD_ISOLATION": "1"}
    shell["PWD"] = str(folder)
    subprocess.run(["sh", "-c", INSTALL[0]], cwd=folder, env=shell, check=True)
    return shell


def _editable() -> list[Path]:
    """Return the folders that editable installations add to the path."""
    return [path for path in map(Path, sys.path) if (path / "kraftwreck/api.py").is_file()]


def test_the_package_is_short_and_imports_the_public_interface_only() -> None:
    (code,) = [text for path, text in tutorial.files().items() if path.endswith(".py")]
    assert len([line for line in code.splitlines() if line.strip()]) < 100
    assert max(map(len, code.splitlines())) <= 100
    imported = {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module and "kraftwreck" in node.module
        for alias in node.names
    }
    assert {module for module, _ in imported} == {"kraftwreck.api"}
    assert {name for _, name in imported} <= set(api.__all__)


@pytest.mark.whole_run
@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
@pytest.mark.parametrize(("command", "shown"), RUNS, ids=[command for command, _ in RUNS])
def test_every_command_prints_what_the_page_shows(
    environment: dict[str, str], command: str, shown: str
) -> None:
    if "version=3.5" in command and shutil.which("go") is None:
        pytest.skip("Go is not installed")
    done = subprocess.run(
        ["sh", "-c", command], cwd=environment["PWD"], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert shown in done.stdout, done.stdout
    assert "Traceback" not in done.stdout
