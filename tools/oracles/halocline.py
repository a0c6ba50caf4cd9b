"""One process of the program: statements go in by a pipe, answers and errors come back by one."""

import os
import re
import select
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from outcome import Outcome

# Statements that are written before the last answer to them is read.
WINDOW = 32
MARK = "oracles7end"
# How statements begin that return rows.
QUERIES = ("SELECT", "WITH", "VALUES", "EXECUTE")


class Halocline:
    """A pool in a directory of its own. A process that ended is started again."""

    def __init__(self, program, options=(), timeout=60):
        self.program, self.options, self.timeout = program, list(options), timeout
        self.directory = Path(tempfile.mkdtemp(prefix="halocline-oracles-"))
        self.pool = self.directory / "oracles.pool"
        help_ = subprocess.run([program, "sql", "--help"], capture_output=True, text=True).stdout
        # Older programs end with the first error and have no command for a marker.
        self.goes_on = "--keep-going" in help_
        self.mark = f"\\echo {MARK}\n" if self.goes_on else f"SELECT 1 AS {MARK};\n"
        self.settings = []
        self.process = None
        self.ended = 0
        self.start()

    def start(self):
        command = [self.program, "sql", str(self.pool), "--create", "--output", "csv", *self.options]
        if self.goes_on:
            command.append("--keep-going")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
        self.buffer = b""
        for setting in self.settings:
            self.run_all([[setting]])

    def close(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def set(self, settings):
        """Makes these statements (SET …) the settings of the session, also of processes that are started later."""
        self.stop()
        self.settings = list(settings)
        self.start()

    def run_all(self, groups):
        """Runs groups of statements, each until one fails. Returns one outcome for each group: its last rows, or its error."""
        outcomes = []
        while len(outcomes) < len(groups):
            window = groups[len(outcomes) : len(outcomes) + WINDOW]
            text = "".join(f"{statement};\n{self.mark}" for group in window for statement in group)
            # A thread of its own: while the program waits for its answers to be read, it reads no statements.
            writer = threading.Thread(target=written, args=(self.process.stdin, text.encode()))
            writer.start()
            for group in window:
                outcome, alive = self.read_group(group)
                outcomes.append(outcome)
                if not alive:
                    self.process.kill()
                    writer.join()
                    self.stop()
                    self.ended += 1
                    self.start()
                    break
            writer.join()
        return outcomes

    def read_group(self, group):
        found, failed = Outcome(rows=[]), None
        for at in range(len(group)):
            lines, alive = self.read_answer()
            outcome = parsed(lines, alive)
            if outcome.rows is None:
                failed = failed or outcome
            elif group[at].lstrip("( ").upper().startswith(QUERIES):
                found = outcome
            if not alive:
                return failed or outcome, False
        return failed or found, True

    def read_answer(self):
        """Returns the lines before the next marker, and false if the process has ended."""
        lines, deadline = [], time.monotonic() + self.timeout
        while True:
            while b"\n" in self.buffer:
                line, _, self.buffer = self.buffer.partition(b"\n")
                text = line.decode(errors="replace")
                if text == MARK:
                    if not self.goes_on:
                        self.read_line(deadline)  # The value below the marker's name.
                    return lines, True
                lines.append(text)
            if not self.fill(deadline):
                return lines, False

    def read_line(self, deadline):
        while b"\n" not in self.buffer:
            if not self.fill(deadline):
                return
        self.buffer = self.buffer.partition(b"\n")[2]

    def fill(self, deadline):
        """Reads more; false at the end of the output and when time is up."""
        descriptor = self.process.stdout.fileno()
        ready, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            self.process.kill()
            self.buffer = b""
            self.process.wait()
            self.process.timed_out = True
            return False
        data = os.read(descriptor, 1 << 16)
        self.buffer += data
        return bool(data)


def written(pipe, data):
    """Writes all of the data, unless the other side ends."""
    view = memoryview(data)
    try:
        while view:
            view = view[pipe.write(view) :]
    except (BrokenPipeError, ValueError):
        pass  # The reader of the answers sees that the process has ended.


def parsed(lines, alive):
    """Returns the outcome that the lines between two markers tell."""
    if any(" panicked at " in line for line in lines):
        text = " ".join(line for line in lines if not line.startswith("note: "))
        return Outcome(error=re.sub(r"thread '[^']*' \(\d+\)", "thread", text)[:600], fatal=True)
    for at, line in enumerate(lines):
        if line.startswith("error: "):
            return Outcome(error=" ".join(lines[at:])[len("error: ") :])
    if not alive:
        return Outcome(error="the process ended or did not answer in time: " + " ".join(lines)[:300], fatal=True)
    if not lines:
        return Outcome(rows=[])
    # The first line has the names of the columns.
    return Outcome(rows=[fields(line) for line in lines[1:]])


def fields(line):
    """Splits a line of CSV: a field that is empty is NULL, an empty text has quotes."""
    if '"' not in line:
        return [field or None for field in line.split(",")]
    result, at = [], 0
    while at <= len(line):
        if line[at : at + 1] == '"':
            text, at = "", at + 1
            while True:
                end = line.find('"', at)
                if end < 0:
                    return [line]
                text += line[at:end]
                at = end + 1
                if line[at : at + 1] != '"':
                    break
                text += '"'
                at += 1
            result.append(text)
            at += 1
        else:
            end = line.find(",", at)
            end = len(line) if end < 0 else end
            result.append(line[at:end] or None)
            at = end + 1
    return result
