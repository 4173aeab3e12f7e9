"""A disk for a namespace host: ext4 in a file, mounted where nodes keep their data.

Unlike a directory of the machine it can lose power. FS_IOC_SHUTDOWN, which xfstests use for that,
stops the file system at once; data that was not fsynced is lost, and the next mount recovers the
journal. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import time
from pathlib import Path

MOUNT = "/var/lib/kraftwreck"
"""The mount point on a host."""
BYTES = 64 << 20
FREE_S = 15.0
"""How long a file system may stay in use after its host has ended."""
_FS_IOC_SHUTDOWN = 0x8004587D
_NOLOGFLUSH = 2


def make(image: Path) -> None:
    """Make an empty file system in a new file. Raises OSError."""
    with image.open("xb") as file:
        file.truncate(BYTES)
    options = ["-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]
    _run(["mkfs.ext4", *options, str(image)])


def copy(image: Path, target: Path) -> None:
    """Copy an image, keeping its holes. Raises OSError."""
    _run(["cp", "--sparse=always", str(image), str(target)])


def mount_at(image: Path, target: Path) -> None:
    """Mount an image; the loop device disappears with the mount. Raises OSError."""
    # Nothing reaches the image by itself for minutes: only fsynced data survives. It need not
    # reach the machine's own disk (barrier=0): only the host loses power.
    options = "loop,noatime,commit=300,barrier=0"
    _run(["mount", "-t", "ext4", "-o", options, str(image), str(target)])


def unmount(target: Path) -> None:
    """Unmount. Raises OSError."""
    _run(["umount", str(target)])


def hold(pid: int) -> int:
    """Return a handle that keeps the disk of the host with this PID 1 mounted. Raises OSError."""
    return os.open(f"/proc/{pid}/root{MOUNT}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def cut_power(handle: int) -> None:
    """Shut the file system down now. Raises OSError."""
    fcntl.ioctl(handle, _FS_IOC_SHUTDOWN, struct.pack("I", _NOLOGFLUSH))


def wait_until_free(image: Path) -> None:
    """Wait until no loop device uses the image. Raises TimeoutError."""
    deadline = time.monotonic() + FREE_S
    while any(_backs(path, image) for path in Path("/sys/block").glob("loop*/loop/backing_file")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{image} is still in use after {FREE_S:.0f} s")
        time.sleep(0.005)


def _backs(path: Path, image: Path) -> bool:
    try:
        return path.read_text().strip().endswith(str(image))
    except OSError:  # It disappeared meanwhile.
        return False


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise OSError(f"{argv[0]}: {said}")
