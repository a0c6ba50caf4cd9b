//! Random changes of the table with a primary key.
//!
//! Their effect does not depend on the order of rows, and they succeed on any contents.

use std::ops::Range;

use halocline_workloads::SplitMix64;

use crate::model::{Rows, text};

/// Rows beyond which statements delete rather than add many.
const MANY_ROWS: usize = 4_000;
/// The text of a row that was there before it was inserted.
const REPLACED: &str = "replaced";

/// One statement that changes the table `k`. Ranges are those of `id`.
#[derive(Debug, Clone)]
pub(crate) enum KeyedChange {
    /// New rows.
    Insert {
        ids: Range<i64>,
    },
    /// New rows, which are loaded in order if the table has none.
    InsertMany {
        ids: Range<i64>,
    },
    /// Rows of which some are there.
    Upsert {
        ids: Range<i64>,
    },
    Update {
        ids: Range<i64>,
    },
    Delete {
        ids: Range<i64>,
    },
    Truncate,
}

impl KeyedChange {
    /// Draws a change of these rows; `None` if the one drawn is not possible now. Transactions change few rows
    /// at a time, since the pool cannot grow for the stores once they have changed the other tables.
    pub(crate) fn draw(rng: &mut SplitMix64, rows: &Rows, in_transaction: bool) -> Option<Self> {
        let start = rows.first_key_value().map_or(0, |(id, _)| *id);
        let end = rows.last_key_value().map_or(0, |(id, _)| id + 1);
        let new = |count: u64| end..end + 1 + count as i64;
        let mut old = |width: u64| {
            let from = start + rng.below((end - start).max(1) as u64) as i64;
            from..from + 1 + rng.below(width) as i64
        };
        let (few, many) = (old(8), old(2_000));
        let has_many = rows.len() > MANY_ROWS;
        Some(match rng.below(20) {
            0..5 => Self::Insert {
                ids: new(rng.below(5)),
            },
            5..7 if !in_transaction && !has_many => Self::InsertMany {
                ids: new(400 + rng.below(1_000)),
            },
            7..11 => Self::Upsert { ids: few },
            11..14 => Self::Update { ids: few },
            14..15 if !in_transaction => Self::Update { ids: many },
            15..17 => Self::Delete { ids: few },
            17..19 if !in_transaction => Self::Delete { ids: many },
            // Takes effect at once, and is refused while a transaction is open.
            19 if !in_transaction => Self::Truncate,
            _ => return None,
        })
    }

    pub(crate) fn sql(&self) -> String {
        let of = |ids: &Range<i64>| format!("WHERE id >= {} AND id < {}", ids.start, ids.end);
        match self {
            Self::Insert { ids } => format!("INSERT INTO k VALUES {}", rows(ids)),
            Self::InsertMany { ids } => format!(
                "INSERT INTO k SELECT i, i % 7, 'row ' || i FROM generate_series({}, {}) AS g(i)",
                ids.start,
                ids.end - 1
            ),
            Self::Upsert { ids } => format!(
                "INSERT INTO k VALUES {} ON CONFLICT (id) DO UPDATE SET v = k.v + excluded.v, s = '{REPLACED}'",
                rows(ids)
            ),
            Self::Update { ids } => format!("UPDATE k SET v = v + 1000 {}", of(ids)),
            Self::Delete { ids } => format!("DELETE FROM k {}", of(ids)),
            Self::Truncate => "TRUNCATE k".to_owned(),
        }
    }

    /// Makes the change in a model of the table.
    pub(crate) fn apply(&self, rows: &mut Rows) {
        match self {
            Self::Insert { ids } | Self::InsertMany { ids } => {
                rows.extend(ids.clone().map(|id| (id, new_row(id))));
            }
            Self::Upsert { ids } => {
                for id in ids.clone() {
                    rows.entry(id)
                        .and_modify(|values| {
                            add(values, id % 7);
                            REPLACED.clone_into(&mut values[1]);
                        })
                        .or_insert_with(|| new_row(id));
                }
            }
            Self::Update { ids } => {
                rows.range_mut(ids.clone())
                    .for_each(|(_, values)| add(values, 1000));
            }
            Self::Delete { ids } => rows.retain(|id, _| !ids.contains(id)),
            Self::Truncate => rows.clear(),
        }
    }
}

/// Adds to the column `v` of a row.
fn add(values: &mut [String], more: i64) {
    values[0] = (values[0].parse::<i64>().unwrap() + more).to_string();
}

/// The columns `v` and `s` of a new row.
fn new_row(id: i64) -> Vec<String> {
    vec![(id % 7).to_string(), text(id)]
}

/// The rows of a range as a list of SQL.
fn rows(ids: &Range<i64>) -> String {
    let rows: Vec<String> = ids
        .clone()
        .map(|id| format!("({id}, {}, '{}')", id % 7, text(id)))
        .collect();
    rows.join(", ")
}
