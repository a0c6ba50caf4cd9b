//! The tables with a primary key of the attacked pool: how they are made and changed.

/// The tables.
pub(crate) const KEYED: [&str; 2] = ["accounts", "visits"];

/// Statements that make them; of `visits` a range is deleted, and rows are updated.
pub(crate) const MAKE_KEYED: &[&str] = &[
    "CREATE TABLE accounts (id bigint PRIMARY KEY, holder varchar NOT NULL, balance decimal(12,2), rate double,
         active boolean)",
    "INSERT INTO accounts SELECT i * 3, 'holder ' || i, (i * 7919 % 100000) / 4.0,
         CASE WHEN i % 40 = 0 THEN NULL ELSE i * 17 % 4001 / 8.0 END, i % 3 = 0
     FROM generate_series(1, 600) AS s(i)",
    "CREATE TABLE visits (page varchar, day date, hits bigint, note varchar, PRIMARY KEY (page, day))",
    "INSERT INTO visits SELECT 'page ' || (i % 25), DATE '2022-01-01' + CAST(i / 25 AS int), i % 1000,
         CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'note ' || (i * 7919 % 100003) END
     FROM generate_series(1, 900) AS s(i)",
    "DELETE FROM visits WHERE page >= 'page 3' AND page < 'page 7'",
    "UPDATE visits SET hits = hits + 100000, note = 'updated ' || hits WHERE day = DATE '2022-01-05'",
];

/// A transaction that changes tables of both kinds.
pub(crate) const MAKE_BOTH: &[&str] = &[
    "BEGIN",
    "UPDATE accounts SET holder = 'of both kinds' WHERE id = 9",
    "INSERT INTO small VALUES (3001, 'of both kinds')",
    "COMMIT",
];

/// Statements whose changes stay in the log of the stores.
pub(crate) const MAKE_KEYED_LOG: &[&str] = &[
    "INSERT INTO accounts VALUES (5000, 'late', 2.5, 0.5, true), (5001, 'later', NULL, NULL, NULL)",
    "UPDATE accounts SET rate = rate * 2 WHERE id BETWEEN 30 AND 45",
    "DELETE FROM accounts WHERE id = 300 OR id = 303",
    "DELETE FROM visits WHERE page = 'page 9'",
    "INSERT INTO visits VALUES ('page 9', DATE '2022-03-01', 1, NULL)",
];

/// Returns true if a table has a primary key.
pub(crate) fn is_keyed(table: &str) -> bool {
    KEYED.contains(&table)
}

/// Returns the statement that copies a table into one with the same primary key.
pub(crate) fn copy(table: &str) -> &'static str {
    match table {
        "accounts" => "CREATE TABLE copied (PRIMARY KEY (id)) AS SELECT * FROM accounts",
        _ => "CREATE TABLE copied (PRIMARY KEY (page, day)) AS SELECT * FROM visits",
    }
}

/// Returns statements that change the row of [`insert`](crate::tables::insert) and change it back.
pub(crate) fn updates(table: &str) -> [&'static str; 2] {
    match table {
        "accounts" => [
            "UPDATE accounts SET holder = 'changed', active = NULL WHERE id = 40000",
            "UPDATE accounts SET holder = 'one more', active = false WHERE id = 40000",
        ],
        _ => [
            "UPDATE visits SET note = NULL, hits = hits + 1 WHERE page = 'page 12' AND day = DATE '2023-03-01'",
            "UPDATE visits SET note = 'one more', hits = hits - 1 WHERE page = 'page 12' AND day = DATE '2023-03-01'",
        ],
    }
}

/// Returns the statement that deletes that row.
pub(crate) fn delete(table: &str) -> &'static str {
    match table {
        "accounts" => "DELETE FROM accounts WHERE id = 40000",
        _ => "DELETE FROM visits WHERE page = 'page 12' AND day = DATE '2023-03-01'",
    }
}
