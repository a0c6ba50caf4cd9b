"""Control groups with a memory limit, and processes in them."""

import os
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
# Seconds between two looks at the memory of a process.
INTERVAL = 0.02


class NoControlGroups(Exception):
    """Control groups cannot be made, with what to do."""


class ControlGroup:
    """A group whose processes are killed when they take more than `limit` bytes. Version 1 or 2, whichever is mounted."""

    def __init__(self, limit):
        self.is_unified = (ROOT / "cgroup.controllers").exists()
        parent = ROOT if self.is_unified else ROOT / "memory"
        self.path = parent / f"halocline-budget-{os.getpid()}"
        try:
            if self.is_unified:
                (ROOT / "cgroup.subtree_control").write_text("+memory")
            self.path.mkdir()
            (self.path / ("memory.max" if self.is_unified else "memory.limit_in_bytes")).write_text(str(limit))
            swap = self.path / ("memory.swap.max" if self.is_unified else "memory.memsw.limit_in_bytes")
            if swap.exists():
                swap.write_text("0" if self.is_unified else str(limit))
        except OSError as error:
            self.close()
            raise NoControlGroups(f"{parent}: {error}; run as root where the memory controller is mounted") from error

    def enter(self):
        """Moves the calling process into the group."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def anonymous(self):
        """Returns the bytes of anonymous memory of all processes of the group."""
        name = "anon" if self.is_unified else "total_rss"
        for line in (self.path / "memory.stat").read_text().splitlines():
            key, value = line.split()
            if key == name:
                return int(value)
        return 0

    def close(self):
        for _ in range(100):
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(INTERVAL)


class Ended:
    """How a process ended: `code` (negative for a signal), seconds, greatest anonymous memory, the end of its errors."""

    def __init__(self, code, seconds, peak, errors):
        self.code, self.seconds, self.peak, self.errors = code, seconds, peak, errors

    @property
    def was_killed(self):
        return self.code == -signal.SIGKILL


def run(command, group, seconds, output, environment=None):
    """Runs a command in a group (or outside of any), with its output to a file.

    One that has not ended after `seconds` is killed, and its code is None.
    """
    errors = Path(f"{output}.err")
    started = time.monotonic()
    with open(output, "wb") as out, open(errors, "wb") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **(environment or {})},
            preexec_fn=group.enter if group else None,
        )
    peak, is_late = 0, False
    while process.poll() is None and not is_late:
        if group:
            peak = max(peak, group.anonymous())
        is_late = time.monotonic() - started > seconds
        time.sleep(INTERVAL)
    elapsed = time.monotonic() - started
    if is_late:
        process.kill()
        process.wait()
    said = errors.read_text(errors="replace")[-300:].strip()
    return Ended(None if is_late else process.returncode, elapsed, peak, said)
