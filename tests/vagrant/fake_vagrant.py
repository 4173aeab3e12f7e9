"""A stand-in for the ``vagrant`` command whose machines are whatever ``machines.json`` says.

It answers the five commands that the provider uses the way Vagrant 2.3.4 does, keeps its
state in the working directory, and writes every command line to ``calls``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

STATE = Path(os.environ.get("VAGRANT_DOTFILE_PATH") or ".vagrant")
MACHINES: dict[str, dict[str, Any]] = json.loads(Path("machines.json").read_text())


def chosen(words: list[str]) -> list[str]:
    return [word for word in words if word in MACHINES] or list(MACHINES)


def status() -> None:
    for name, machine in MACHINES.items():
        print(f"1795229750,{name},metadata,provider,virtualbox")
        print(f"1795229750,{name},provider-name,virtualbox")
        print(f"1795229750,{name},state,{machine['state']}")
        print(f"1795229750,{name},state-human-short,{machine['state']}")
    print("1795229750,,ui,info,Current machine states:\\n\\nmore%!(VAGRANT_COMMA) here")


def set_state(names: list[str], state: str) -> None:
    for name in names:
        print(f"==> {name}: now {state}")
        MACHINES[name]["state"] = state
        identity = STATE / f"machines/{name}/virtualbox/id"
        if not identity.exists():
            identity.parent.mkdir(parents=True)
            identity.write_text(f"id-of-{name}")
    Path("machines.json").write_text(json.dumps(MACHINES))


def ssh_config(name: str) -> None:
    machine = MACHINES[name]
    for line in (
        f"Host {name}", f"  HostName {machine['address']}", f"  User {machine['user']}",
        f"  Port {machine['port']}", "  UserKnownHostsFile /dev/null",
        "  StrictHostKeyChecking no", "  PasswordAuthentication no",
        f'  IdentityFile "{machine["key"]}"', "  IdentitiesOnly yes", "  LogLevel FATAL", "",
    ):  # fmt: skip
        print(line)


def main(words: list[str]) -> int:
    with Path("calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    if Path("broken").exists():
        error = f"Vagrant::Errors::{Path('broken').read_text()}"
        print(f"1795229750,,error-exit,{error},No provider%!(VAGRANT_COMMA) sorry.\\nMore")
        return 1
    command, names = words[0], chosen(words[1:])
    if command == "status":
        status()
    elif command == "up":
        set_state(names, "running")
    elif command == "halt":
        set_state(names, "poweroff")
    elif command == "ssh-config":
        for name in names:
            ssh_config(name)
    elif command == "ssh":
        print(MACHINES[names[0]]["said"])
    else:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
