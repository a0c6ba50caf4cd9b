//! Commands that write, each of which may be killed: what they do, and which states a kill may leave.

use std::collections::{BTreeMap, BTreeSet};

use halocline_workloads::SplitMix64;

use crate::common::Home;

/// Rows of a table beyond which it is deleted from rather than added to.
const MANY_ROWS: u64 = 30_000;

/// The most rows that one transaction moves between tables.
const MANY_MOVED: u64 = 500;

/// The compared contents of a table: rows, the sum of `id`, columns.
pub(crate) type Contents = (u64, i64, usize);

/// The contents of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) tables: BTreeMap<String, Contents>,
    pub(crate) indexes: BTreeSet<String>,
    /// The tree `kv`.
    pub(crate) entries: BTreeMap<u64, u64>,
}

/// A command line, and what it makes of a pool.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) arguments: Vec<String>,
    /// The kind of the command; commands of one kind take about the same time.
    pub(crate) kind: usize,
    after: State,
    /// Entries that a load puts into the tree one by one.
    load: Vec<(u64, u64)>,
}

impl Command {
    /// A random command that succeeds on this pool.
    pub(crate) fn draw(home: &Home, rng: &mut SplitMix64, before: &State) -> Self {
        loop {
            let kind = rng.below(16) as usize;
            let mut after = before.clone();
            let mut load = Vec::new();
            if let Some(arguments) = make(kind, home, rng, &mut after, &mut load) {
                return Self {
                    arguments: arguments.iter().map(ToString::to_string).collect(),
                    kind,
                    after,
                    load,
                };
            }
        }
    }

    /// Returns true if a pool may be in this state after the command was killed, or has finished.
    pub(crate) fn allows(&self, before: &State, found: &State, finished: bool) -> bool {
        if *found == self.after {
            return true;
        }
        if finished {
            return false;
        }
        let mut partly = before.clone();
        if *found == partly {
            return true;
        }
        self.load.iter().any(|(key, value)| {
            partly.entries.insert(*key, *value);
            *found == partly
        })
    }
}

/// The arguments of a command of a kind; `None` if it cannot be run now.
fn make(
    kind: usize,
    home: &Home,
    rng: &mut SplitMix64,
    state: &mut State,
    load: &mut Vec<(u64, u64)>,
) -> Option<Vec<String>> {
    let words = |text: &str| Some(text.split(' ').map(str::to_owned).collect());
    let sql = |text: String| Some(vec!["sql".to_owned(), "p".to_owned(), text]);
    let rows = 1 + rng.below(3000);
    let (keys, _, _) = state.tables["k"];
    let t = state.tables.get_mut("t").unwrap();
    let first = t.1.unsigned_abs() % 100_000;
    let sum = (first..first + rows).map(|id| id as i64).sum::<i64>();
    match kind {
        0 => {
            csv(home, first, rows, 2);
            let new = state.tables.insert("u".to_owned(), (rows, sum, 2));
            new.is_none().then(|| words("import p u rows.csv"))?
        }
        1 if t.0 < MANY_ROWS => {
            csv(home, first, rows, t.2);
            (t.0, t.1) = (t.0 + rows, t.1 + sum);
            words("import p t rows.csv --append")
        }
        2 => {
            let name = format!("i{}", rng.below(3));
            let command = format!("index p t --on v,id --name {name}");
            state.indexes.insert(name).then(|| words(&command))?
        }
        3 => {
            let name = state.indexes.pop_first()?;
            words(&format!("drop p {name}"))
        }
        4 => {
            state.tables.remove("u")?;
            words("drop p u")
        }
        5 => words("compact p t --full"),
        6 => words("vacuum p"),
        7 => {
            let key = rng.below(5000);
            state.entries.insert(key, rows);
            words(&format!("kv p put {key} {rows}"))
        }
        8 => {
            let (key, _) = state.entries.pop_last()?;
            words(&format!("kv p del {key}"))
        }
        9 => {
            let start = rng.below(5000);
            let stop = start + rng.below(2000);
            load.extend((start..stop).map(|key| (key, rows + key)));
            let lines: String = load
                .iter()
                .map(|(key, value)| format!("{key},{value}\n"))
                .collect();
            home.write("entries.csv", lines);
            state.entries.extend(load.iter().copied());
            words("kv p load entries.csv")
        }
        10 => words("check p --repair"),
        11 if t.2 < 5 => {
            let name = format!("c{}", t.2);
            t.2 += 1;
            sql(format!("ALTER TABLE t ADD COLUMN {name} bigint DEFAULT 7"))
        }
        12 if t.0 < MANY_ROWS => {
            let last = first + rows - 1;
            let more = ", 7".repeat(t.2 - 2);
            (t.0, t.1) = (t.0 + rows, t.1 + sum);
            sql(format!(
                "BEGIN; INSERT INTO t SELECT i, i % 7{more} FROM generate_series({first}, {last}) AS s(i); \
                 UPDATE t SET v = v + 1 WHERE v = 3; COMMIT"
            ))
        }
        13 if t.0 >= MANY_ROWS || rng.below(8) == 0 => {
            (t.0, t.1) = (0, 0);
            sql("DELETE FROM t".to_owned())
        }
        14 if keys < MANY_ROWS => {
            let last = keys + rows - 1;
            state.tables.insert("k".to_owned(), keyed(keys + rows));
            sql(format!(
                "INSERT INTO k SELECT i, i % 7 FROM generate_series({keys}, {last}) AS s(i)"
            ))
        }
        // Rows move from the table with a primary key to the other one.
        15 if keys > 0 => {
            let left = keys.saturating_sub(1 + rng.below(MANY_MOVED));
            let moved = (left..keys).sum::<u64>() as i64;
            (t.0, t.1) = (t.0 + keys - left, t.1 + moved);
            let more = ", 7".repeat(t.2 - 2);
            state.tables.insert("k".to_owned(), keyed(left));
            sql(format!(
                "BEGIN; INSERT INTO t SELECT id, v{more} FROM k WHERE id >= {left}; \
                 DELETE FROM k WHERE id >= {left}; COMMIT"
            ))
        }
        _ => None,
    }
}

/// The contents of the table with a primary key, `k`, of which `id` runs from 0 to before `rows`.
fn keyed(rows: u64) -> Contents {
    (rows, (0..rows).sum::<u64>() as i64, 2)
}

/// A file of rows with a header: `id`, `v`, and columns that were added.
fn csv(home: &Home, first: u64, rows: u64, columns: usize) {
    let header: Vec<String> = ["id".to_owned(), "v".to_owned()]
        .into_iter()
        .chain((2..columns).map(|column| format!("c{column}")))
        .collect();
    let mut text = header.join(",") + "\n";
    for id in first..first + rows {
        text += &format!("{id},{}{}\n", id % 7, ",7".repeat(columns - 2));
    }
    home.write("rows.csv", text);
}

/// States that must not be accepted are refused.
#[test]
fn lost_and_torn_commands_are_noticed() {
    let with = |entries: &[(u64, u64)]| State {
        entries: entries.iter().copied().collect(),
        ..State::default()
    };
    let load = vec![(1, 7), (2, 7), (3, 7)];
    let (before, after) = (with(&[(9, 9)]), with(&[(1, 7), (2, 7), (3, 7), (9, 9)]));
    let command = Command {
        arguments: Vec::new(),
        kind: 9,
        after: after.clone(),
        load,
    };
    assert!(command.allows(&before, &after, true));
    assert!(
        !command.allows(&before, &before, true),
        "an acknowledged load is lost"
    );
    assert!(command.allows(&before, &before, false));
    assert!(command.allows(&before, &with(&[(1, 7), (2, 7), (9, 9)]), false));
    assert!(
        !command.allows(&before, &with(&[(2, 7), (9, 9)]), false),
        "one is missing in between"
    );
    assert!(
        !command.allows(&before, &with(&[(1, 7), (2, 7)]), false),
        "an older one is lost"
    );
    let rows = |rows: u64| State {
        tables: BTreeMap::from([("t".to_owned(), (rows, 0, 2))]),
        ..State::default()
    };
    let append = Command {
        after: rows(20),
        load: Vec::new(),
        ..command
    };
    assert!(append.allows(&rows(10), &rows(10), false) && append.allows(&rows(10), &rows(20), false));
    assert!(!append.allows(&rows(10), &rows(15), false), "half of an import");
}
