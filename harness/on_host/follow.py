"""On a host: print the lines of a node's trace as they are written.

Standard library only, for any Python >= 3.9. :mod:`harness.remote.follow` sends it to the host and
reads its output: first a line for the existing contents, then blocks of complete trace lines. Each
block follows a line ``{"lines": count, "mono_us": ..}`` with the machine's monotonic clock at the
time of reading. It ends when its standard input does.
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
"""How often it looks without a notification, in case inotify does not work."""
CHUNK = 1 << 20


def announcements(path: str) -> int:
    """Return a descriptor that becomes readable when the file is written to, or -1."""
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
    """Return a descriptor of the file, None while it does not exist."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def follow(path: str) -> None:
    """Print every complete line written to ``path`` from now on, until standard input ends."""
    file = None
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    rest = b""
    said = False
    while True:
        if file is None:
            file = opened(path)
            if file is not None:
                # The existing contents of a file are from before this call.
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
    """Print without buffering."""
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
