"""On a host: passes on the lines of a node's trace as they are written.

Standard library only, for any Python >= 3.9; it is sent to the host by
:mod:`harness.remote.follow`, which reads what it prints: first a line for what was there, then
blocks of whole trace lines, each block after a line ``{"lines": count, "mono_us": ..}``, the
machine's monotonic clock when they were read. It ends when its standard input does.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import sys
import time

IN_MODIFY = 2
LOOK_MS = 50
"""How often it looks although nothing was announced: where inotify does not work at all."""
CHUNK = 1 << 20


def announcements(path: str) -> int:
    """Return a descriptor that becomes readable when the file is written to, -1 if none can."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if descriptor >= 0 and libc.inotify_add_watch(descriptor, path.encode(), IN_MODIFY) < 0:
            os.close(descriptor)
            return -1
        return descriptor
    except (OSError, AttributeError):
        return -1


def opened(path: str) -> int | None:
    """Return a descriptor of the file, None while there is no such file."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def follow(path: str) -> None:
    """Pass on every whole line written to ``path`` from now on, until standard input ends."""
    file = None
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    rest = b""
    said = False
    while True:
        if file is None:
            file = opened(path)
            if file is not None:
                # What a file that is already there holds happened before anybody asked.
                if not said:
                    os.lseek(file, 0, os.SEEK_END)
                changed = announcements(path)
                if changed >= 0:
                    poll.register(changed, select.POLLIN)
        if not said:
            said = True
            put(json.dumps({"following": path}).encode())
        chunk = os.read(file, CHUNK) if file is not None else b""
        if chunk:
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                head = {"lines": len(lines), "mono_us": time.monotonic_ns() // 1000}
                put(json.dumps(head).encode() + b"\n" + b"\n".join(lines))
            continue
        for descriptor, _ in poll.poll(LOOK_MS):
            if descriptor == 0:
                if not os.read(0, 4096):
                    return
            else:
                os.read(descriptor, 65536)


def put(block: bytes) -> None:
    """Print at once."""
    sys.stdout.buffer.write(block + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Follow the file that the first line of standard input names."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return
        line += byte
    follow(json.loads(line)["path"])


if __name__ == "__main__":
    main()
