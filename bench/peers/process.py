"""A system in a process of its own: its memory is measured apart, and it may be ended without harm to the others."""

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

from engines import KINDS, Failed

# Seconds between two looks at the memory of a process, and their share of the time of a query if that is more.
INTERVAL, SHARE = 0.01, 0.005


def serve(pipe, name, options, tables, work):
    """Answers queries that come by the pipe, until None does. Runs in the process of the system."""
    try:
        system = KINDS[name](options, tables, work)
        pipe.send((system.load, system.size))
        while (sql := pipe.recv()) is not None:
            pipe.send(system.keep(sql) if options.answers == "table" else system.run(sql))
        system.close()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass  # The other side has ended.
    except Exception as error:
        pipe.send(Failed(f"{error}".strip()))


class System:
    """Starts the process, also again after a query that failed."""

    def __init__(self, name, options, tables, work):
        self.arguments = (name, options, tables, work)
        self.timeout = options.timeout
        self.load = self.size = None
        self.start()

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, *self.arguments))
        self.process.start()
        theirs.close()
        try:
            load, self.size = self.received(None, [])[0]
        except Failed as failure:
            sys.exit(f"{self.arguments[0]} does not start: {failure}")
        self.load = self.load or load

    def run(self, sql):
        """Returns milliseconds and rows, and the peaks of anonymous and of all resident memory in bytes.

        Raises `Failed` with an error of the system or after the timeout.
        """
        if not self.process.is_alive():
            self.start()
        members = family(self.process.pid)
        for member in members:
            forget_peak(member)
        self.pipe.send(sql)
        try:
            (milliseconds, rows), anonymous = self.received(self.timeout, members)
        except Failed:
            self.kill()
            raise
        resident = sum(status(member).get("VmHWM", 0) for member in members)
        return milliseconds, rows, anonymous, resident

    def received(self, timeout, members):
        """The answer of the process, and the most anonymous memory that the members of its family had meanwhile."""
        start, elapsed, most = time.monotonic(), 0, 0
        while not self.pipe.poll(max(INTERVAL, elapsed * SHARE)):
            most = max(most, sum(status(member).get("RssAnon", 0) for member in members))
            elapsed = time.monotonic() - start
            if timeout and elapsed > timeout:
                raise Failed(f"no answer in {timeout} s")
        try:
            answer = self.pipe.recv()
        except EOFError:
            raise Failed("the process ended") from None
        if isinstance(answer, Failed):
            raise answer
        return answer, most

    def kill(self):
        for member in family(self.process.pid):
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.join()

    def close(self):
        try:
            self.pipe.send(None)
        except BrokenPipeError:
            pass  # It has ended already.
        self.process.join(30)
        self.kill()


def family(pid):
    """The process and those that it, and these, have started."""
    members = [pid]
    for member in members:
        try:
            for thread in Path(f"/proc/{member}/task").iterdir():
                members += map(int, (thread / "children").read_text().split())
        except OSError:
            pass  # It has ended.
    return members


def status(pid):
    """Sizes from the status of a process, in bytes; none if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.endswith(" kB")}


def forget_peak(pid):
    """Lets the kernel measure the peak of resident memory from now on."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        pass  # It has ended.
