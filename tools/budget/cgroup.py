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


def run(commands, group, seconds, outputs, environment=None):
    """Runs commands at the same time in a group (or outside of any), each with its output to a file.

    One that has not ended after `seconds` is killed, and its code is None.
    """
    started = time.monotonic()
    processes = []
    for command, output in zip(commands, outputs):
        with open(output, "wb") as out, open(f"{output}.err", "wb") as errors:
            processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=errors,
                    env={**os.environ, **(environment or {})},
                    preexec_fn=group.enter if group else None,
                )
            )
    ends, peak = {}, 0
    while len(ends) < len(processes):
        for number, process in enumerate(processes):
            if number not in ends and process.poll() is not None:
                ends[number] = (process.returncode, time.monotonic() - started)
        if group:
            peak = max(peak, group.anonymous())
        if time.monotonic() - started > seconds:
            for number, process in enumerate(processes):
                if number not in ends:
                    process.kill()
                    process.wait()
                    ends[number] = (None, time.monotonic() - started)
        time.sleep(INTERVAL)
    said = [Path(f"{output}.err").read_text(errors="replace")[-300:].strip() for output in outputs]
    return [Ended(*ends[number], peak, said[number]) for number in range(len(processes))]
