"""The tutorial's etcd with a choice of clients: that in Python, or one in Go by the line protocol.

The program in Go is built from modules that ``etcd_go/go.sum`` pins, once; from then on it is taken
from the cache of artefacts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from my_etcd import Etcd

from kraftwreck.api import GoModule, OptionError
from kraftwreck.harness.deploy.cache import ArtefactCache

SOURCES = "etcd_go"
PROGRAM = "etcd-client"
GO_VERBS = ("read", "write", "cas")


class EtcdClients(Etcd):  # type: ignore[misc]  # a page has it, no file
    """etcd with the option ``client``."""

    options = {**Etcd.options, "client": ("python", "go")}  # noqa: RUF012 - as the base class has it

    def configured(self, given: Sequence[str]) -> EtcdClients:
        """Return etcd with these options; the client in Go understands fewer verbs."""
        system: EtcdClients = super().configured(given)
        if system.option("client") == "go":
            system.verbs = GO_VERBS
        return system

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch etcd, and build the client in Go. Raises what the cache of artefacts raises."""
        super().fetch(say)
        if self.option("client") == "go":
            built = ArtefactCache(say=say).fetch(module())
            program = str(built.tar.with_name("downloads") / PROGRAM)
            reads = ["serializable"] if self.option("serializable") == "true" else []
            self.helper = (program, *reads)


def module(folder: str = SOURCES, program: str = PROGRAM) -> GoModule:
    """Return a program in Go from a folder beside this file, by default the client.

    Raises OptionError if its sources are missing.
    """
    sources = Path(__file__).with_name(folder)
    found = sorted(each for pattern in ("go.*", "*.go") for each in sources.glob(pattern))
    if not found:
        raise OptionError(f"{program}: {sources} has no sources in Go")
    return GoModule(name=program, program=program, files={f.name: f.read_text() for f in found})


SYSTEM = EtcdClients()
