//! Writes of a case to tables, and what it reads from them afterwards.

use crate::answers::Opened;
use crate::case::Case;
use crate::keyed::{self, KEYED, is_keyed};
use crate::tables::{ASKS, TABLES, insert};

impl Case<'_> {
    /// Adds a row to a table, copies all rows or writes them anew, and drops a table.
    pub(crate) fn write(&mut self) {
        let Some(opened) = self.open(false) else { return };
        let table = self.table();
        let inserted = opened.run(insert(table));
        let after = inserted.is_ok();
        let may_fail = self.verdict.may_fail(table, true);
        if let Err(error) = inserted {
            self.verdict.refused("insert", may_fail, &error.to_string());
        }
        let whole = ASKS
            .iter()
            .position(|ask| ask.table == table && ask.sql.starts_with("SELECT * FROM"))
            .unwrap();
        let last = if is_keyed(table) {
            keyed::copy(table).to_owned()
        } else {
            format!("CREATE INDEX fresh ON {table} USING elf (id)")
        };
        let copy = [
            format!("VACUUM FULL {table}"),
            format!("CREATE TABLE copied AS SELECT * FROM {table}"),
            last,
            "VACUUM FULL".to_owned(),
        ];
        let copy = &copy[self.rng.below(copy.len() as u64) as usize];
        match opened.run(copy) {
            Ok(()) if copy.contains("copied") => {
                let answer = opened.rows("SELECT * FROM copied");
                // A copy with a primary key is in the stores as well.
                let may_fail = may_fail && (self.verdict.hostile || copy.contains("PRIMARY KEY"));
                self.digest("copied", answer, (whole, after), may_fail, false);
            }
            Ok(()) => {}
            Err(error) => {
                // The stores say whether a new name is that of a table with a primary key.
                let is_new = copy.starts_with("CREATE TABLE");
                let may_fail = may_fail || copy == "VACUUM FULL" || is_new && self.verdict.owns_stores();
                self.verdict.refused(copy, may_fail, &error.to_string());
            }
        }
        for (number, ask) in ASKS.iter().enumerate().filter(|(_, ask)| ask.table == table) {
            if self.rng.below(2) == 0 {
                let answer = opened.ask(ask);
                self.judge(ask, answer, number, after);
            }
        }
        self.drop(&opened, table);
    }

    /// Adds a row to a table with a primary key, changes it and changes it back, and deletes it, each time
    /// with the pool opened anew.
    pub(crate) fn change_keyed(&mut self) {
        let table = KEYED[self.rng.below(KEYED.len() as u64) as usize];
        if !self.verdict.concerns(table) && self.rng.below(3) != 0 {
            return;
        }
        let [there, back] = keyed::updates(table);
        for (statements, after) in [
            (vec![insert(table), there, back], true),
            (vec![keyed::delete(table)], false),
        ] {
            let Some(opened) = self.open(false) else {
                self.unsure.push(table);
                return;
            };
            for statement in statements {
                if let Err(error) = opened.run(statement) {
                    let may_fail = self.verdict.may_fail(table, false);
                    self.unsure.push(table);
                    return self.verdict.refused(statement, may_fail, &error.to_string());
                }
            }
            drop(opened);
            let Some(opened) = self.open(true) else {
                self.unsure.push(table);
                return;
            };
            for (number, ask) in ASKS.iter().enumerate().filter(|(_, ask)| ask.table == table) {
                if self.rng.below(2) == 0 {
                    let answer = opened.ask(ask);
                    self.judge(ask, answer, number, after);
                }
            }
        }
    }

    /// Drops a table; others are as they were.
    fn drop(&mut self, opened: &Opened, inserted: &str) {
        let dropped = self.table();
        if let Err(error) = opened.run(&format!("DROP TABLE {dropped}")) {
            let may_fail = if is_keyed(dropped) {
                self.verdict.may_fail(dropped, false)
            } else {
                !self.verdict.only_objects() || self.verdict.owns("log")
            };
            self.verdict
                .refused(&format!("DROP TABLE {dropped}"), may_fail, &error.to_string());
        }
        for (number, ask) in ASKS.iter().enumerate() {
            if ask.table != dropped && ask.table != inserted && self.rng.below(4) == 0 {
                let answer = opened.ask(ask);
                self.judge(ask, answer, number, false);
            }
        }
        match opened.check() {
            Ok(problems) => self.verdict.named(&problems),
            Err(error) => self
                .verdict
                .refused("check", !self.verdict.only_objects(), &error.to_string()),
        }
    }

    /// Returns a table, more likely one that is damaged.
    fn table(&mut self) -> &'static str {
        let concerned: Vec<_> = TABLES
            .into_iter()
            .filter(|table| self.verdict.concerns(table))
            .collect();
        match self.rng.below(3) {
            0 => TABLES[self.rng.below(TABLES.len() as u64) as usize],
            _ if concerned.is_empty() => TABLES[self.rng.below(TABLES.len() as u64) as usize],
            _ => concerned[self.rng.below(concerned.len() as u64) as usize],
        }
    }
}
