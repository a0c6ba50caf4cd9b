//! Random statements, `ALTER TABLE` among them, do the same to tables of both kinds and to a model.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use halocline_engine::DatabaseOptions;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::alter_table::KINDS;
use super::support::{new_pool, query, reopen, run};

/// A column besides the key `k`. Values of both types are the digits of numbers.
#[derive(Clone)]
struct ModelColumn {
    name: String,
    is_text: bool,
    default: Option<i64>,
}

#[derive(Clone, Default)]
struct Model {
    columns: Vec<ModelColumn>,
    rows: BTreeMap<i64, Vec<Option<i64>>>,
    /// Number of names and keys so far.
    names: i64,
}

fn shown(value: Option<i64>) -> String {
    value.map_or("NULL".to_owned(), |value| format!("'{value}'"))
}

fn type_name(is_text: bool) -> &'static str {
    if is_text { "text" } else { "bigint" }
}

impl Model {
    fn lines(&self) -> Vec<String> {
        let line = |(key, values): (&i64, &Vec<Option<i64>>)| {
            let values = values.iter();
            let values = values.map(|value| value.map_or("NULL".to_owned(), |value| value.to_string()));
            std::iter::once(key.to_string())
                .chain(values)
                .collect::<Vec<_>>()
                .join("|")
        };
        self.rows.iter().map(line).collect()
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("c{}", self.names)
    }

    /// Returns a change of a random column, or a new one.
    fn random_alteration(&mut self, rng: &mut StdRng) -> String {
        let at = match self.columns.len() {
            0 => None,
            columns => Some(rng.random_range(0..columns)),
        };
        match (rng.random_range(0..5), at) {
            (1, Some(at)) => {
                let dropped = self.columns.remove(at);
                for values in self.rows.values_mut() {
                    values.remove(at);
                }
                format!("DROP COLUMN {}", dropped.name)
            }
            (2, Some(at)) => {
                let name = self.name();
                let old = std::mem::replace(&mut self.columns[at].name, name.clone());
                format!("RENAME COLUMN {old} TO {name}")
            }
            (3, Some(at)) => {
                let default = rng.random_bool(0.5).then(|| rng.random_range(0..100));
                self.columns[at].default = default;
                match default {
                    Some(value) => format!("ALTER COLUMN {} SET DEFAULT '{value}'", self.columns[at].name),
                    None => format!("ALTER COLUMN {} DROP DEFAULT", self.columns[at].name),
                }
            }
            _ => {
                let column = ModelColumn {
                    name: self.name(),
                    is_text: rng.random_bool(0.5),
                    default: rng.random_bool(0.5).then(|| rng.random_range(0..100)),
                };
                self.rows
                    .values_mut()
                    .for_each(|values| values.push(column.default));
                let default = column.default.map(|value| format!(" DEFAULT '{value}'"));
                let text = format!(
                    "ADD COLUMN {} {}{}",
                    column.name,
                    type_name(column.is_text),
                    default.unwrap_or_default()
                );
                self.columns.push(column);
                text
            }
        }
    }

    /// Returns a random statement, after doing the same to the model.
    fn random_statement(&mut self, rng: &mut StdRng) -> String {
        let from = rng.random_range(0..=self.names);
        let value = rng.random_bool(0.8).then(|| rng.random_range(0..100i64));
        match rng.random_range(0..10) {
            0..=2 => {
                self.names += 1;
                let key = self.names;
                let given = rng.random_range(0..=self.columns.len());
                let columns = self.columns.iter().enumerate();
                let values: Vec<Option<i64>> = columns
                    .map(|(at, column)| if at < given { value } else { column.default })
                    .collect();
                let names = self.columns[..given].iter().map(|column| column.name.clone());
                let names: Vec<String> = std::iter::once("k".to_owned()).chain(names).collect();
                let shown_values = values[..given].iter().map(|value| shown(*value));
                let shown_values: Vec<String> =
                    std::iter::once(key.to_string()).chain(shown_values).collect();
                self.rows.insert(key, values);
                format!(
                    "INSERT INTO t ({}) VALUES ({})",
                    names.join(", "),
                    shown_values.join(", ")
                )
            }
            3 | 4 if !self.columns.is_empty() => {
                let at = rng.random_range(0..self.columns.len());
                let changed = self.rows.range_mut(from..);
                changed.for_each(|(_, values)| values[at] = value);
                let name = &self.columns[at].name;
                format!("UPDATE t SET {name} = {} WHERE k >= {from}", shown(value))
            }
            5 => {
                self.rows.retain(|key, _| *key < from || *key % 3 > 0);
                format!("DELETE FROM t WHERE k >= {from} AND k % 3 = 0")
            }
            6 if !self.columns.is_empty() => {
                let at = rng.random_range(0..self.columns.len());
                let column = &mut self.columns[at];
                column.is_text = !column.is_text;
                format!(
                    "ALTER TABLE t ALTER COLUMN {} TYPE {}",
                    column.name,
                    type_name(column.is_text)
                )
            }
            7 => {
                let changes = [self.random_alteration(rng), self.random_alteration(rng)];
                format!("ALTER TABLE t {}", changes.join(", "))
            }
            _ => format!("ALTER TABLE t {}", self.random_alteration(rng)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
async fn random_changes_agree_with_a_model() {
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        since.as_nanos() as u64
    };
    let seed = std::env::var("HALOCLINE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    println!("HALOCLINE_SEED={seed}");
    for key in KINDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let (dir, mut db) = new_pool();
        run(&db, &format!("CREATE TABLE t (k bigint{key})")).await;
        if key.is_empty() {
            run(&db, "CREATE INDEX i ON t (k)").await;
        }
        let (mut model, mut before) = (Model::default(), None);
        for _ in 0..120 {
            match rng.random_range(0..24) {
                0 if before.is_none() => {
                    drop(db);
                    db = reopen(&dir, &DatabaseOptions::default());
                }
                1 if before.is_none() => {
                    run(&db, "BEGIN").await;
                    before = Some(model.clone());
                }
                2..=4 => {
                    if let Some(before) = before.take() {
                        let rolls_back = rng.random_bool(0.5);
                        run(&db, if rolls_back { "ROLLBACK" } else { "COMMIT" }).await;
                        if rolls_back {
                            model = before;
                        }
                    }
                }
                _ => {
                    let text = model.random_statement(&mut rng);
                    run(&db, &text).await;
                }
            }
            assert_eq!(
                query(&db, "SELECT * FROM t ORDER BY k").await,
                model.lines(),
                "{key}"
            );
            let mut names: Vec<String> = model.columns.iter().map(|column| column.name.clone()).collect();
            names.insert(0, "k".to_owned());
            let columns = db.sql("SELECT * FROM t").await.unwrap().collect().await.unwrap();
            if let Some(batch) = columns.first() {
                let schema = batch.schema();
                let found: Vec<&str> = schema
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                assert_eq!(found, names);
            }
        }
        if before.is_some() {
            run(&db, "COMMIT").await;
        }
        drop(db);
        let db = reopen(&dir, &DatabaseOptions::default());
        assert_eq!(query(&db, "SELECT * FROM t ORDER BY k").await, model.lines());
        assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
    }
}
