//! The tables of the attacked pool: how those without a primary key are made (keyed.rs makes the others), and
//! what is asked of all.

/// Statements that make all tables but `texts`, in segments, with deleted rows and indexes.
pub(crate) const MAKE: &[&str] = &[
    "CREATE TABLE orders (id bigint NOT NULL, k int, day date, amount decimal(10,2), region varchar, weight double,
         paid boolean)",
    "INSERT INTO orders SELECT i, CASE WHEN i % 50 = 0 THEN NULL ELSE i * 7 % 13 END,
         DATE '2020-01-01' + CAST(i * 31 % 200 AS int), (i * 7919 % 100000) / 4.0,
         CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 'north' WHEN 2 THEN 'süd' ELSE '' END, i * 17 % 4001 / 8.0, i % 3 = 0
     FROM generate_series(1, 16000) AS s(i)",
    "CREATE INDEX by_k ON orders USING elf (k, day)",
    "CREATE INDEX by_region ON orders USING elf (region, id) WITH (layout = 'published')",
    "INSERT INTO orders SELECT i, i % 13, NULL, -1.25, 'west ' || (i % 900), NULL, false
     FROM generate_series(16001, 22000) AS s(i)",
    "DELETE FROM orders WHERE id % 97 = 7",
    "CREATE TABLE events (day date, id bigint, v bigint unsigned) WITH (cluster = 'day,id')",
    "INSERT INTO events SELECT DATE '2021-01-01' + CAST(i % 365 AS int), i, i * 2654435761 % 4294967296
     FROM generate_series(1, 24000) AS s(i)",
    "CREATE INDEX by_day ON events USING elf (day, id)",
    "CREATE TABLE small (id bigint NOT NULL, name varchar)",
    "INSERT INTO small SELECT i, 'name ' || i FROM generate_series(1, 3000) AS s(i)",
];

/// Statements that make `texts`, by a database of so little memory that its strings get no dictionary.
pub(crate) const MAKE_TEXTS: &[&str] = &[
    "CREATE TABLE texts (id bigint NOT NULL, note varchar)",
    "INSERT INTO texts SELECT i, 'text number ' || (i * 7919 % 100003) || ' of many that differ' || i || repeat('.', 220)
     FROM generate_series(1, 12000) AS s(i)",
];

/// Statements whose changes stay in the log.
pub(crate) const MAKE_LOG: &[&str] = &[
    "INSERT INTO orders VALUES (30001, 3, '2020-01-04', 9.75, 'log', 0.5, true), (30002, NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO small VALUES (30001, 'log'), (30002, NULL)",
    "UPDATE orders SET region = 'moved', amount = amount * 2 WHERE id < 4",
    "DELETE FROM events WHERE id = 5 OR id = 6",
    "INSERT INTO texts VALUES (30001, 'a text in the log')",
    "DELETE FROM small WHERE id = 30002 OR id = 17",
];

/// All tables, also those with a primary key.
pub(crate) const TABLES: [&str; 6] = ["orders", "events", "texts", "small", "accounts", "visits"];

/// A question to one table.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) table: &'static str,
    /// The index that must answer it; none: whatever there is may not be used.
    pub(crate) index: Option<&'static str>,
    pub(crate) sql: &'static str,
}

const fn ask(table: &'static str, index: Option<&'static str>, sql: &'static str) -> Ask {
    Ask { table, index, sql }
}

/// All questions. Together they need every column, by scan and, where it has an index, by that.
pub(crate) const ASKS: &[Ask] = &[
    ask("small", None, "SELECT * FROM small"),
    ask("orders", None, "SELECT * FROM orders"),
    ask(
        "orders",
        None,
        "SELECT * FROM orders WHERE k BETWEEN 3 AND 4 AND day < DATE '2020-03-01'",
    ),
    ask(
        "orders",
        Some("by_k"),
        "SELECT * FROM orders WHERE k BETWEEN 3 AND 4 AND day < DATE '2020-03-01'",
    ),
    ask("orders", Some("by_k"), "SELECT id, k FROM orders WHERE k = 5"),
    ask(
        "orders",
        Some("by_k"),
        "SELECT count(*), sum(amount) FROM orders WHERE k >= 11",
    ),
    ask(
        "orders",
        Some("by_region"),
        "SELECT id, amount FROM orders WHERE region = 'north' AND id < 9000",
    ),
    ask(
        "orders",
        Some("by_region"),
        "SELECT id, region FROM orders WHERE region >= 'west 5'",
    ),
    ask(
        "orders",
        None,
        "SELECT region, count(*), sum(amount), min(day), max(weight) FROM orders GROUP BY region",
    ),
    ask(
        "orders",
        None,
        "SELECT * FROM orders WHERE id = 4711 OR id = 30001",
    ),
    ask(
        "orders",
        None,
        "SELECT count(*) FROM orders WHERE weight < 100 AND NOT paid",
    ),
    ask("events", None, "SELECT * FROM events"),
    ask(
        "events",
        Some("by_day"),
        "SELECT * FROM events WHERE day = DATE '2021-03-01'",
    ),
    ask(
        "events",
        Some("by_day"),
        "SELECT count(*), sum(v) FROM events WHERE day > DATE '2021-02-01' AND id > 12000",
    ),
    ask(
        "events",
        None,
        "SELECT max(v), min(id) FROM events WHERE day < DATE '2021-07-01'",
    ),
    ask("texts", None, "SELECT * FROM texts"),
    ask("texts", None, "SELECT id FROM texts WHERE note LIKE '%77%'"),
    ask(
        "texts",
        None,
        "SELECT note FROM texts WHERE id BETWEEN 100 AND 110",
    ),
    ask("accounts", None, "SELECT * FROM accounts"),
    ask(
        "accounts",
        None,
        "SELECT holder, balance FROM accounts WHERE id = 1200",
    ),
    ask(
        "accounts",
        None,
        "SELECT * FROM accounts WHERE id BETWEEN 600 AND 750",
    ),
    ask(
        "accounts",
        None,
        "SELECT active, count(*), sum(balance), max(rate) FROM accounts GROUP BY active",
    ),
    ask("visits", None, "SELECT * FROM visits"),
    ask(
        "visits",
        None,
        "SELECT hits, note FROM visits WHERE page = 'page 12' AND day = DATE '2022-01-09'",
    ),
    ask(
        "visits",
        None,
        "SELECT * FROM visits WHERE page = 'page 2' AND day >= DATE '2022-01-20'",
    ),
    ask(
        "visits",
        None,
        "SELECT page, sum(hits), count(note) FROM visits GROUP BY page",
    ),
];

/// A statement that adds one row to a table.
pub(crate) fn insert(table: &str) -> &'static str {
    match table {
        "orders" => "INSERT INTO orders VALUES (40000, 5, '2020-02-02', 1.5, 'north', 2.5, false)",
        "events" => "INSERT INTO events VALUES ('2021-03-01', 40000, 7)",
        "texts" => "INSERT INTO texts VALUES (40000, 'one more 77')",
        "accounts" => "INSERT INTO accounts VALUES (40000, 'one more', 1.5, 2.5, false)",
        "visits" => "INSERT INTO visits VALUES ('page 12', DATE '2023-03-01', 7, 'one more')",
        _ => "INSERT INTO small VALUES (40000, 'one more')",
    }
}
