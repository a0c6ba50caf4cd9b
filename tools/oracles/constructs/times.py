"""Dates and times: far dates, mixed comparisons, date_trunc, time zones, daylight saving, to_char."""

import datetime
import zoneinfo

from case import Case
from generator import COMPARISONS
from places import finished, outer
from values import DATES, FAR_TIMES, TIMES


def far_comparison(g):
    """Dates against timestamps of any unit and now()."""
    table, scope = outer(g)
    g.portable = False
    d, t = g.column(scope, "date"), g.column(scope, "timestamp")
    moment = g.pick("TIMESTAMP '2026-01-01 00:00:00'", "CAST('2020-01-01 00:00:00' AS timestamp(6))", "CAST('9999-12-31 23:59:59' AS timestamp(6))", "CAST('0001-01-01 00:00:00' AS timestamp(6))", "now()", "CAST('2020-01-01 00:00:00' AS timestamp(3))", "CAST('2020-01-01 00:00:00' AS timestamp(0))")
    pairs = []
    if d:
        pairs.append(f"{d.sql} {g.pick(*COMPARISONS)} {moment}")
        pairs.append(f"{d.sql} BETWEEN DATE '{g.pick(*DATES)}' AND {moment}")
    if t:
        pairs.append(f"{t.sql} {g.pick(*COMPARISONS)} {g.pick(moment, f'DATE {chr(39)}{g.pick(*DATES)}{chr(39)}')}")
    if d and t:
        pairs.append(f"{d.sql} {g.pick(*COMPARISONS)} {t.sql}")
    if not pairs:
        pairs.append(f"DATE '{g.pick(*DATES)}' {g.pick(*COMPARISONS)} {moment}")
    text = g.pick(*pairs)
    duck = text.replace("now()", "CAST(now() AS timestamp)")
    if g.chance(0.4):
        return Case(f"SELECT a.id, {text} AS r FROM {table.name} a", duck=f"SELECT a.id, {duck} AS r FROM {table.name} a")
    head = f"SELECT a.id FROM {table.name} a WHERE "
    return Case(head + text, duck=head + duck, condition=("a.id", f"{table.name} a", text))


def truncated(g):
    table, scope = outer(g)
    g.portable = False
    unit = g.pick("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    ref = g.column(scope, g.pick("date", "timestamp")) or g.column(scope, "timestamp") or g.column(scope, "date")
    value = ref.sql if ref and g.chance(0.7) else f"CAST('{g.pick(*TIMES, *FAR_TIMES)}' AS timestamp(6))"
    duck = f"CAST(date_trunc('{unit}', {value}) AS timestamp)"
    sql = f"CAST(date_trunc('{unit}', {value}) AS timestamp(6))"
    if g.chance(0.3):
        by = f"date_trunc('{unit}', {value})"
        return Case(f"SELECT CAST({by} AS timestamp(6)) AS r, count(*) AS c FROM {table.name} a GROUP BY {by}", duck=f"SELECT CAST({by} AS timestamp) AS r, count(*) AS c FROM {table.name} a GROUP BY {by}")
    return Case(f"SELECT a.id, {sql} AS r FROM {table.name} a", duck=f"SELECT a.id, {duck} AS r FROM {table.name} a")


def parts(g):
    table, scope = outer(g)
    g.portable = False
    ref = g.column(scope, g.pick("date", "timestamp")) or g.column(scope, "date")
    value = ref.sql if ref else f"DATE '{g.pick(*DATES)}'"
    part = g.pick("year", "month", "day", "quarter", "doy", "dow")
    form = g.pick("extract({0} FROM {1})", "date_part('{0}', {1})")
    return finished(g, f"SELECT a.id, CAST({form.format(part, value)} AS bigint) AS r FROM {table.name} a")


def zoned(g):
    """Literals and casts carry their zone; instants are compared whatever their zones are."""
    g.portable = False

    def one():
        base = g.pick("2020-01-01 00:00:00", "2021-06-15 12:30:00", "2021-06-15 10:30:00", "1969-12-31 23:59:59")
        offset = g.pick("+00:00", "+02:00", "-05:00", "Z", "+05:30")
        form = g.pick("CAST('{0}{1}' AS timestamptz)", "TIMESTAMPTZ '{0}{1}'", "CAST('{0}{1}' AS timestamp with time zone)")
        return form.format(base, offset)

    left, right = one(), one()
    if g.chance(0.4):
        naive = f"CAST('{g.pick('2020-01-01 00:00:00', '2021-06-15 10:30:00')}' AS timestamp)"
        right = g.pick(naive, f"CAST({naive} AS timestamptz)")
    operator = g.pick(*COMPARISONS)
    form = g.random.randrange(4)
    if form == 0:
        return Case(f"SELECT {left} {operator} {right} AS r")
    if form == 3:
        # What a clock of the zone shows at the instant.
        return Case(f"SELECT CAST(extract(minute FROM ({one()} AT TIME ZONE 'Asia/Kolkata')) AS bigint) AS r")
    if form == 1:
        return Case(f"SELECT CAST(extract(epoch FROM {left}) AS bigint) AS r, {left} {operator} {right} AS q")
    return Case(f"SELECT count(*) AS c FROM (SELECT {left} AS t UNION ALL SELECT {one()} UNION ALL SELECT {one()}) z WHERE z.t {operator} {right}")


ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"]


def daylight(g):
    """Gaps and overlaps of daylight saving have an answer, no error; other moments are exact."""
    g.portable = False
    zone = g.pick(*ZONES)
    base = g.pick("2021-03-28 02:30:00", "2021-10-31 02:30:00", "2021-03-14 02:30:00", "2021-11-07 01:30:00", "2021-06-15 12:00:00", "2021-01-15 12:00:00")
    form = g.random.randrange(2)
    info = zoneinfo.ZoneInfo(zone)
    naive = datetime.datetime.fromisoformat(base)
    if form == 0:
        # A wall-clock time to an instant: with fold=0 and fold=1 for the two readings of a time that is there twice or never.
        allowed = {int(naive.replace(tzinfo=info, fold=fold).timestamp()) for fold in (0, 1)}
        sql = f"SELECT CAST(extract(epoch FROM (CAST('{base}' AS timestamp) AT TIME ZONE '{zone}')) AS bigint) AS r"
    else:
        instant = naive.replace(tzinfo=datetime.timezone.utc)
        local = instant.astimezone(info).replace(tzinfo=None)
        allowed = {int(local.replace(tzinfo=datetime.timezone.utc).timestamp())}
        sql = f"SELECT CAST(extract(epoch FROM CAST((CAST('{base}+00:00' AS timestamptz) AT TIME ZONE '{zone}') AS timestamp)) AS bigint) AS r"

    def judge(outcome):
        if outcome.rows is None:
            return "an error"
        found = outcome.rows[0][0]
        return None if found is not None and int(float(found)) in allowed else f"{found}, where one of {sorted(allowed)} is right"

    return Case(sql, duck=None, exact=judge)


def to_char(g):
    """PostgreSQL's patterns, or a refusal."""
    base = g.pick("2021-06-05 13:04:09", "1999-12-31 00:00:00", "2020-02-29 23:59:59")
    moment = datetime.datetime.fromisoformat(base)
    patterns = {
        "YYYY-MM-DD": "%Y-%m-%d",
        "HH24:MI:SS": "%H:%M:%S",
        "YYYY/MM/DD HH24:MI": "%Y/%m/%d %H:%M",
        "DD.MM.YYYY": "%d.%m.%Y",
        "HH12:MI": "%I:%M",
        "YY": "%y",
        "DDD": "%j",
        "YYYYMM": "%Y%m",
    }
    pattern = g.random.choice(list(patterns))
    wanted = moment.strftime(patterns[pattern])

    def judge(outcome):
        if outcome.rows is None:
            return "a panic" if outcome.fatal else None
        return None if outcome.rows == [[wanted]] else f"{outcome.rows}, where '{wanted}' or a refusal is right"

    return Case(f"SELECT to_char(CAST('{base}' AS timestamp), '{pattern}') AS r", duck=None, exact=judge)


CONSTRUCTS = {
    "time: far dates": far_comparison,
    "time: date_trunc": truncated,
    "time: parts": parts,
    "time: zones": zoned,
    "time: daylight saving": daylight,
    "time: to_char": to_char,
}
