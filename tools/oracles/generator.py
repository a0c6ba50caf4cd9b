"""Random expressions and conditions over columns in scope."""

from dataclasses import dataclass

from values import TYPES, domain, literal

COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
ORDERED = ["int", "text", "decimal", "date", "timestamp", "float"]


@dataclass(frozen=True)
class Ref:
    """A column in scope, as a query writes it."""

    sql: str
    kind: str
    type: object
    nullable: bool = True


class Generator:
    """Makes the text of one case. `portable` becomes false with the first thing that SQLite does not have."""

    def __init__(self, random, schema):
        self.random, self.schema = random, schema
        self.portable = True
        self.aliases = 0

    # Small choices.

    def chance(self, share):
        return self.random.random() < share

    def pick(self, *choices):
        return self.random.choice(choices)

    def alias(self, letter="q"):
        self.aliases += 1
        return f"{letter}{self.aliases}x"

    def table(self, rows=False):
        """Returns a table, one that has rows if that is wanted."""
        full = [t for t in self.schema.tables if t.rows]
        # Some tables are empty; most queries should have something to say.
        return self.random.choice(full if full and (rows or self.chance(0.8)) else self.schema.tables)

    def scope(self, table, alias):
        return [Ref(f"{alias}.{c.name}", c.type.kind, c.type, c.nullable) for c in table.columns]

    def column(self, scope, kind=None):
        """Returns a column of a kind, or None."""
        fitting = [ref for ref in scope if kind in (None, ref.kind)]
        if not fitting:
            return None
        ref = self.random.choice(fitting)
        self.note(ref.kind)
        return ref

    def note(self, kind):
        if kind in ("float", "decimal", "date", "timestamp"):
            self.portable = False

    def common(self, left, right):
        """Returns a column of each scope such that they can be compared."""
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind]
        plain = [(a, b) for a, b in pairs if a.kind in ("int", "text", "bool")]
        a, b = self.random.choice(plain if plain and self.chance(0.7) else pairs)
        self.note(a.kind)
        return a, b

    # Expressions.

    def constant(self, kind):
        self.note(kind)
        type_ = self.random.choice(TYPES[kind])
        if kind == "decimal":
            type_ = TYPES[kind][0]
        return literal(type_, self.random.choice(domain(kind)))

    def null(self, kind):
        name = {"int": "int", "float": "double", "decimal": "decimal(10, 2)", "text": "varchar", "date": "date", "timestamp": "timestamp(6)", "bool": "boolean"}
        self.note(kind)
        return f"CAST(NULL AS {name[kind]})"

    def value(self, scope, kind, depth=1):
        """Returns an expression of a kind, mostly a column."""
        ref = self.column(scope, kind)
        if ref is None or self.chance(0.1):
            return self.null(kind) if self.chance(0.1) else self.constant(kind)
        if depth == 0 or self.chance(0.6):
            return ref.sql
        inner = self.value(scope, kind, depth - 1)
        choices = ["coalesce", "nullif", "case"]
        if kind == "int":
            choices += ["plus", "minus"]
        choice = self.random.choice(choices)
        if choice == "coalesce":
            return f"COALESCE({inner}, {self.constant(kind)})"
        if choice == "nullif":
            return f"NULLIF({inner}, {self.constant(kind)})"
        if choice == "case":
            return f"CASE WHEN {self.predicate(scope, 0)} THEN {inner} ELSE {ref.sql} END"
        if choice == "plus":
            return f"(CAST({inner} AS int) + {self.random.randint(1, 3)})"
        return f"(-CAST({inner} AS int))"

    def predicate(self, scope, depth=1):
        """Returns a condition that may be true, false or unknown."""
        if depth > 0 and self.chance(0.6):
            left, right = self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)
            return self.connected(left, right)
        kind = self.random.choice([ref.kind for ref in scope])
        self.note(kind)
        ref = self.column(scope, kind)
        if kind == "bool":
            form = self.pick("{0}", "NOT {0}", "{0} IS NOT TRUE", "{0} IS FALSE", "{0} IS NULL")
            return form.format(ref.sql)
        choice = self.random.randrange(9)
        if choice < 4:
            return f"{ref.sql} {self.pick(*COMPARISONS)} {self.value(scope, kind, 0)}"
        if choice == 4:
            return f"{ref.sql} IS {self.pick('', 'NOT ')}NULL"
        if choice == 5:
            return f"{ref.sql} {self.pick('', 'NOT ')}BETWEEN {self.constant(kind)} AND {self.value(scope, kind, 0)}"
        if choice == 6:
            values = [self.constant(kind) for _ in range(self.random.randint(1, 3))]
            if self.chance(0.25):
                values.append("NULL")
            return f"{ref.sql} {self.pick('', 'NOT ')}IN ({', '.join(values)})"
        if choice == 7:
            return f"({ref.sql} IS {self.pick('', 'NOT ')}DISTINCT FROM {self.value(scope, kind, 0)})"
        return f"{ref.sql} {self.pick(*COMPARISONS)} {self.constant(kind)}"

    def connected(self, left, right):
        """Returns a condition that two conditions make."""
        return self.pick(
            f"({left}) AND ({right})",
            f"({left}) OR ({right})",
            f"({left}) OR NOT ({right})",
            f"NOT (({left}) AND ({right}))",
            f"NOT ({left}) AND ({right})",
            f"(({left}) IS NULL OR ({right}))",
            f"CASE WHEN {left} THEN ({right}) ELSE ({left}) END",
            f"COALESCE(({left}), ({right}))",
        )

    def around(self, condition, scope):
        """Returns a condition that has the given one in it, at a place where unknown and false differ or not."""
        other = self.predicate(scope, 0)
        return self.pick(
            condition,
            condition,
            f"NOT ({condition})",
            f"({condition}) OR ({other})",
            f"NOT (({condition}) AND ({other}))",
            f"({condition}) AND ({other})",
            f"({condition}) IS NULL",
            f"({condition}) IS NOT TRUE",
            f"({other}) OR NOT ({condition})",
            f"CASE WHEN {condition} THEN ({other}) ELSE true END",
            f"COALESCE(({condition}), ({other}))",
        )

    def order(self, expressions):
        """Returns a list for ORDER BY that says where NULL is."""
        return ", ".join(f"{e} {self.pick('ASC', 'DESC')} NULLS {self.pick('FIRST', 'LAST')}" for e in expressions)
