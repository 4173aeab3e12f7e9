"""Code of an archive that is compiled beforehand: its modules, and methods of its dataclasses.

Compiling takes most of a node's start. The module :mod:`dataclasses` writes the methods of each
class as source, and executes it when the class is defined; this takes a third of the start of a
node whose modules are compiled. Modules are found in one file, since :mod:`zipimport` reads each of
them twice. All of it is the same as without: what is not there is compiled from its source.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import secrets
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

from kraftwreck.harness.deploy.cache import cache_folder

FILE = "kraftwreck/compiled"
"""The archive's file of compiled code. After the magic number of its Python come two marshalled
dictionaries. The first has modules by name: file, whether it is a package, marshalled code. The
second has the marshalled code of methods by their source."""
LIMIT_S = 60.0

PACKAGE = '''\
"""The package of an archive of node code, which may contain compiled code."""

import dataclasses
import marshal
import sys
from importlib.machinery import ModuleSpec
from importlib.util import MAGIC_NUMBER


class _Compiled:
    """Finds and loads compiled modules; their sources are beside them."""

    def __init__(self, archive, modules):
        self._modules = modules
        self._folder = archive.archive + "/"
        self.get_data = archive.get_data

    def find_spec(self, name, path=None, target=None):
        if name not in self._modules:
            return None
        file, package, _ = self._modules[name]
        where = self._folder + file
        spec = ModuleSpec(name, self, origin=where, is_package=package)
        spec.has_location = True
        if package:
            spec.submodule_search_locations = [where.rpartition("/")[0]]
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(self.get_code(module.__name__), module.__dict__)

    def get_code(self, name):
        return marshal.loads(self._modules[name][2])

    def get_source(self, name):
        return self.get_data(self._folder + self._modules[name][0]).decode()

    def is_package(self, name):
        return self._modules[name][1]


def _use(archive):
    try:
        file = archive.get_data(archive.archive + "/kraftwreck/compiled")
    except (AttributeError, OSError):
        return
    if not file.startswith(MAGIC_NUMBER):
        return
    modules, methods = marshal.loads(file[len(MAGIC_NUMBER) :])
    sys.meta_path.insert(0, _Compiled(archive, modules))

    def run(source, *scopes):
        code = methods.get(source)
        exec(source if code is None else marshal.loads(code), *scopes)

    dataclasses.exec = run


_use(__loader__)
'''
"""The source of the archive's package ``kraftwreck``."""

_RECORD = """\
import dataclasses, importlib, marshal, sys, zipfile
output, sys.stdout = sys.stdout.buffer, sys.stderr
found = {}
def run(source, *scopes):
    code = compile(source, "<string>", "exec", dont_inherit=True)
    found[source] = marshal.dumps(code)
    exec(code, *scopes)
sys.path.insert(0, sys.argv[1])
import kraftwreck
dataclasses.exec = run
for name in sorted(zipfile.ZipFile(sys.argv[1]).namelist()):
    if name.endswith(".py") and not name.endswith("__main__.py"):
        try:
            importlib.import_module(name[:-3].replace("/", ".").removesuffix(".__init__"))
        except Exception:
            pass
output.write(marshal.dumps(found))
"""


KEPT = 8
"""How many results are kept on the disk."""


def compiled(archive: bytes) -> bytes:
    """Return the content of :data:`FILE` for an archive of sources, for this version of Python.

    The last results are kept below ``$XDG_CACHE_HOME/kraftwreck/nodes``.
    """
    here = Path(__file__).read_bytes()
    key = hashlib.sha256(b"\0".join([archive, here, sys.version.encode()])).hexdigest()
    folder = cache_folder().with_name("nodes")
    kept = folder / key
    with suppress(OSError):
        found = kept.read_bytes()
        if hashlib.sha256(found[32:]).digest() == found[:32]:
            os.utime(kept)
            return found[32:]
    made = _compile(archive)
    with suppress(OSError):  # It is only a cache.
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".part-{os.getpid()}-{secrets.token_hex(4)}"
        part.write_bytes(hashlib.sha256(made).digest() + made)
        part.replace(kept)
        for old in sorted(folder.iterdir(), key=_used)[:-KEPT]:
            old.unlink(missing_ok=True)
    return made


def _used(path: Path) -> float:
    return path.stat().st_mtime


def _compile(archive: bytes) -> bytes:
    """Compile an archive of sources.

    Modules that this Python cannot compile are left out: the host's may, or will report an error.
    """
    modules = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as sources:
        for name in sources.namelist():
            if name.endswith(".py") and name.startswith("kraftwreck/nodes/"):
                module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
                with suppress(SyntaxError):
                    code = compile(sources.read(name), name, "exec", dont_inherit=True)
                    modules[module] = (name, name.endswith("/__init__.py"), marshal.dumps(code))
    return _file(modules, _methods(archive, _file(modules, {})))


def _file(modules: dict[str, tuple[str, bool, bytes]], methods: dict[str, bytes]) -> bytes:
    return importlib.util.MAGIC_NUMBER + marshal.dumps((modules, methods))


def _methods(archive: bytes, file: bytes) -> dict[str, bytes]:
    """Return compiled methods of dataclasses by their sources, as another process finds them.

    Modules that cannot be imported are left out.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nodes.zip"
        path.write_bytes(archive)
        with zipfile.ZipFile(path, "a") as both:
            both.writestr(FILE, file)
        command = [sys.executable, "-I", "-S", "-c", _RECORD, str(path)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=LIMIT_S
            )
        except (OSError, subprocess.SubprocessError):
            return {}
    found: dict[str, bytes] = marshal.loads(done.stdout)  # noqa: S302 - our own
    return found
