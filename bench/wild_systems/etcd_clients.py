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

SOURCES = Path(__file__).with_name("etcd_go")
FILES = ("go.mod", "go.sum", "main.go", "load.go")
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


def module() -> GoModule:
    """Return the client in Go as an artefact. Raises OptionError if its sources are missing."""
    try:
        files = {name: (SOURCES / name).read_text() for name in FILES}
    except OSError as error:
        raise OptionError(f"the client in Go: {error.strerror}: {error.filename}") from None
    return GoModule(name=PROGRAM, program=PROGRAM, files=files)


SYSTEM = EtcdClients()
