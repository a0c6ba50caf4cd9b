"""What a system says to a query: rows, or an error."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """`rows` is None if there is an error. `fatal` means that the process ended, panicked or did not answer."""

    rows: list | None = None
    kinds: list = field(default_factory=list)
    error: str = ""
    fatal: bool = False

    def __str__(self):
        if self.rows is None:
            return f"error: {self.error}"
        shown = [" ".join("NULL" if v is None else repr(v) for v in row) for row in self.rows[:12]]
        return "\n".join([f"{len(self.rows)} rows", *shown])
