"""Random tables: columns, rows, and the statements that make them in each system."""

import re
from dataclasses import dataclass

from values import TYPES, domain, literal

# Columns beside `id`, by name: the same name has the same kind in all tables, so that they can be joined.
COLUMNS = {"k": "int", "x": "int", "s": "text", "f": "float", "n": "decimal", "d": "date", "ts": "timestamp", "b": "bool"}

# Ways to store a table, by the letter behind its name: "" is in the log.
STORED = {"": "in the log", "s": "sorted", "i": "indexed", "k": "with a primary key", "m": "partly in the log, with deleted rows"}


@dataclass
class Column:
    name: str
    type: object
    nullable: bool = True


@dataclass
class Table:
    name: str
    columns: list
    rows: list
    sort: list
    index: list

    def values(self, rows):
        texts = ("(" + ", ".join(literal(c.type, v) for c, v in zip(self.columns, row)) + ")" for row in rows)
        return ", ".join(texts)

    def create(self, name, lite=False, key=False):
        def column(c):
            type_ = (c.type.lite or "blob") if lite else c.type.name
            constraint = " PRIMARY KEY" if key and c.name == "id" else "" if c.nullable or lite else " NOT NULL"
            return f"{c.name} {type_}{constraint}"

        return f"CREATE TABLE {name} ({', '.join(map(column, self.columns))})"

    def stored(self, letter, rows=None):
        """Returns statements that make the table, with these rows, in a way of `STORED`."""
        rows = self.rows if rows is None else rows
        name, source = self.name + letter, f"{self.name}{letter}_rows"
        if letter in ("", "k"):
            return [self.create(name, key=letter == "k"), *self.insert(name, rows)]
        half = len(rows) // 2
        first = rows[:half] if letter == "m" else rows
        options = f" WITH (sort = '{', '.join(self.sort)}')" if letter == "s" else ""
        statements = [self.create(source), *self.insert(source, first), f"CREATE TABLE {name}{options} AS SELECT * FROM {source}", f"DROP TABLE {source}"]
        if letter == "i":
            statements.append(f"CREATE INDEX {name}_index ON {name} USING elf ({', '.join(self.index)})")
        if letter == "m":
            extra = [[9000 + at, *row[1:]] for at, row in enumerate(rows[:3])]
            statements += [*self.insert(name, rows[half:] + extra), f"DELETE FROM {name} WHERE id >= 9000"]
        return statements

    def insert(self, name, rows):
        return [f"INSERT INTO {name} VALUES {self.values(rows)}"] if rows else []


class Schema:
    """Tables t0 to t3 with 0 to 40 rows."""

    def __init__(self, random):
        self.tables = [make_table(random, f"t{at}") for at in range(4)]

    def plain(self, lite=False):
        """Returns statements that make the tables in a system with one way to store them."""
        statements = []
        for t in self.tables:
            statements.append(t.create(t.name, lite))
            rows = t.rows
            if lite:
                rows = [[v if c.type.lite else None for c, v in zip(t.columns, row)] for row in rows]
            statements += t.insert(t.name, rows)
        return statements


def renamed(text, letter):
    """Returns the statement over the tables that are stored in another way."""
    return re.sub(r"\bt([0-9])\b", rf"t\g<1>{letter}", text)


def make_table(random, name):
    columns = [Column("id", TYPES["int"][0], nullable=False)]
    for column, kind in COLUMNS.items():
        if column == "k" or random.random() < 0.75:
            columns.append(Column(column, random.choice(TYPES[kind]), random.random() < 0.9))
    size = random.choice([0, 1, 3, 5, 8, 8, 12, 20, 40])
    makers = [maker(random, c) for c in columns[1:]]
    rows = [[at, *(make() for make in makers)] for at in range(size)]
    indexed = [c.name for c in columns if c.type.kind in ("int", "date", "bool", "text")]
    sort = random.sample([c.name for c in columns], 2)
    return Table(name, columns, rows, sort, random.sample(indexed, min(3, len(indexed))))


def maker(random, column):
    """Returns a function that makes values of a column, which are skewed to those that come first."""
    values = list(domain(column.type.kind))
    random.shuffle(values)
    if column.type.kind == "float" and random.random() < 0.4:
        # Zeros of both signs are beside each other often enough to meet.
        values = ["0.0", "-0.0", *values]
    values = values[: random.choice([1, 2, 3, 5, len(values)])]
    share = random.choice([0, 0.15, 0.15, 0.4, 0.4, 0.95]) if column.nullable else 0

    def make():
        if random.random() < share:
            return None
        return values[int(len(values) * random.random() ** 2)]

    return make
