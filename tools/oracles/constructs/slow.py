"""Shapes whose time must grow with the rows and not with their square."""

from case import Case


def shape(g):
    """Returns queries over numbers up to N, of which time is measured for two N."""
    left = "(SELECT value AS id, value % 2 AS b, value % 3 AS c FROM generate_series(1, {n}) s(value)) a"
    right = "(SELECT value AS id, value % 2 AS b, value % 5 AS d FROM generate_series(1, {n}) s(value)) b"
    nullable = "(SELECT CASE WHEN value % 1000 = 0 THEN NULL ELSE value % 50 END AS id, value % 2 AS b FROM generate_series(1, {n}) s(value))"
    return {
        "null-safe beside =": f"SELECT count(*) AS c FROM {left} JOIN {right} ON (a.id IS NOT DISTINCT FROM b.id) AND a.b = b.b",
        "NOT IN of nullable columns": f"SELECT count(*) AS c FROM {left} WHERE a.b NOT IN (SELECT id FROM {nullable} z WHERE z.b = a.b)",
        "NOT IN of few values": f"SELECT count(*) AS c FROM (SELECT id % 7 AS id FROM {nullable} y) a WHERE a.id NOT IN (SELECT id + 100 FROM {nullable} z)",
        "EXISTS with <>": f"SELECT count(*) AS c FROM {left} WHERE EXISTS (SELECT 1 FROM {right} WHERE b.b = a.b AND b.id <> a.id)",
        "FULL JOIN below a condition": f"SELECT count(*) AS c FROM {left} FULL JOIN {right} ON a.id = b.id JOIN (SELECT value AS id FROM generate_series(1, {{n}}) s(value)) e ON e.id = b.id WHERE a.c = 1",
        "join over DISTINCT ON": f"SELECT count(*) AS c FROM {left} JOIN (SELECT DISTINCT ON (b.d) b.d, b.id FROM {right} ORDER BY b.d, b.id) z ON z.id = a.id AND z.d = a.b",
    }


def grows(name):
    def make(g):
        case = Case(shape(g)[name], duck=None)
        case.grows = True
        return case

    return make


CONSTRUCTS = {f"slow: {name}": grows(name) for name in shape(None)}
