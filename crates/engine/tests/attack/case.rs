//! One case: a changed copy of the pool, read, written and checked, and the verdict on each answer.

use std::fs;
use std::path::{Path, PathBuf};

use halocline_engine::EngineError;
use halocline_ordered::TreeKind;
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::SplitMix64;
use xxhash_rust::xxh3::xxh3_64;

use crate::answers::{Answers, Opened, copy_at};
use crate::damage::{self, Damaged};
use crate::digest::Digest;
use crate::image::{Image, SLOT, SLOTS, SUPERBLOCK, word};
use crate::tables::{ASKS, Ask, TABLES, insert};
use crate::verdict::Verdict;
use crate::{hostile, pristine, trees};

/// The intact pool, and where copies of it go.
#[derive(Debug)]
pub(crate) struct Files {
    directory: PathBuf,
    pub(crate) image: Image,
}

impl Files {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            image: Image::new(fs::read(pristine::path(directory)).unwrap()),
        }
    }

    /// Makes a file of these bytes, the only one there is at a time.
    pub(crate) fn write(&self, bytes: &[u8]) -> PathBuf {
        let path = copy_at(&self.directory);
        // A new file: what has the one before open keeps it.
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The pool without the copies of its newest superblock.
    pub(crate) fn without_newest(&self) -> Vec<u8> {
        let mut bytes = self.image.bytes.clone();
        let newest = word(&bytes, self.image.superblock + 32);
        for slot in (0..SLOTS).map(|slot| slot * SLOT) {
            if word(&bytes, slot + 32) == newest {
                bytes[slot..slot + SUPERBLOCK].fill(0);
            }
        }
        bytes
    }
}

/// Runs a case; what is wrong, a line each: its class, a colon, a text.
pub(crate) fn run(name: &str, seed: u64, files: &Files, answers: &Answers) -> Vec<String> {
    let mut rng = SplitMix64::stream(seed, xxh3_64(name.as_bytes()));
    let hostile = name == "hostile";
    let damaged = if hostile {
        hostile::draw(&files.image, &mut rng)
    } else {
        damage::draw(&files.image, &mut rng)
    };
    let path = files.write(&damaged.bytes);
    if let Some(len) = damaged.len {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(len).unwrap();
    }
    let mut case = Case {
        verdict: Verdict::new(&damaged, hostile),
        answers,
        rng,
        path,
    };
    case.read();
    case.look_at_trees();
    case.write();
    let Damaged { story, owners, .. } = &damaged;
    let faults = case.verdict.faults.iter();
    faults
        .map(|fault| format!("{fault} [{story} {owners:?}]"))
        .collect()
}

struct Case<'a> {
    verdict: Verdict,
    answers: &'a Answers,
    rng: SplitMix64,
    path: PathBuf,
}

impl Case<'_> {
    /// Questions to what is damaged, and to something else; then `check`.
    fn read(&mut self) {
        let Some(opened) = self.open(true) else { return };
        for number in self.questions() {
            let answer = opened.ask(&ASKS[number]);
            self.judge(&ASKS[number], answer, number, false);
        }
        self.check(&opened);
    }

    /// Numbers of questions.
    fn questions(&mut self) -> Vec<usize> {
        let (verdict, rng) = (&self.verdict, &mut self.rng);
        let narrow = verdict.only_objects();
        let numbers = (0..ASKS.len()).filter(|number| {
            let concerned = verdict.concerns(ASKS[*number].table);
            concerned && (narrow || rng.below(3) == 0) || rng.below(8) == 0
        });
        numbers.collect()
    }

    fn open(&mut self, read_only: bool) -> Option<Opened> {
        match Opened::open(&self.path, read_only) {
            Ok(opened) => Some(opened),
            Err(error) => {
                self.verdict
                    .refused("opening", !self.verdict.only_objects(), &error.to_string());
                None
            }
        }
    }

    fn check(&mut self, opened: &Opened) {
        match opened.check() {
            Ok(problems) => self.verdict.checked(&problems),
            Err(error) => self
                .verdict
                .refused("check", !self.verdict.only_objects(), &error.to_string()),
        }
    }

    fn judge(&mut self, ask: &Ask, answer: Result<Digest, EngineError>, number: usize, after: bool) {
        let what = format!("{:?} {}", ask.index, ask.sql);
        let by_index = ask.index.is_some();
        let may_fail = self.verdict.may_fail(ask.table, by_index);
        self.digest(&what, answer, (number, after), may_fail, by_index);
    }

    fn digest(
        &mut self,
        what: &str,
        answer: Result<Digest, EngineError>,
        (number, after): (usize, bool),
        may_fail: bool,
        by_index: bool,
    ) {
        let digest = match answer {
            Ok(digest) => digest,
            Err(error) => return self.verdict.refused(what, may_fail, &error.to_string()),
        };
        let sheets = [&self.answers.newest, &self.answers.older];
        let allowed = if self.verdict.may_be_older() { 2 } else { 1 };
        let right = sheets[..allowed].iter().any(|sheet| {
            if after {
                sheet.after[number] == digest
            } else {
                sheet.before[number] == digest
            }
        });
        if !right {
            let text = format!("{digest:?} instead of {:?}", self.answers.newest.before[number]);
            let own = self.verdict.involves(ASKS[number].table, by_index);
            self.verdict.wrong(what, &text, own);
        }
    }

    fn look_at_trees(&mut self) {
        let damaged = TreeKind::ALL
            .iter()
            .filter(|kind| self.verdict.owns(&trees::name(**kind)));
        let mut kinds: Vec<_> = damaged.copied().collect();
        // No tree twice, as what is looked at is also changed.
        let other = TreeKind::ALL[self.rng.below(TreeKind::ALL.len() as u64) as usize];
        if !kinds.contains(&other) {
            kinds.push(other);
        }
        let write = self.rng.below(2) == 0;
        let options = PoolOptions::default().with_read_only(!write);
        let pool = match Pool::open(&self.path, &options) {
            Ok(pool) => pool,
            Err(error) => {
                return self
                    .verdict
                    .refused("opening", !self.verdict.only_objects(), &error.to_string());
            }
        };
        for kind in kinds {
            let name = trees::name(kind);
            let seen = trees::visit(&pool, kind, write, &mut self.rng);
            let may_fail = !self.verdict.only_objects() || self.verdict.owns(&name);
            for error in &seen.errors {
                self.verdict.refused(&name, may_fail, &error.to_string());
            }
            for wrong in &seen.wrong {
                let own = self.verdict.owns(&name);
                self.verdict.wrong(&name, wrong, own);
            }
            if seen.clean && !seen.errors.is_empty() && !self.verdict.hostile {
                self.verdict
                    .fault("unreported", &format!("{name}: clean, but {:?}", seen.errors[0]));
            }
        }
    }

    /// A row more, a copy of all rows, a table less.
    fn write(&mut self) {
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
        let copy = [
            format!("VACUUM FULL {table}"),
            format!("CREATE TABLE copied AS SELECT * FROM {table}"),
            format!("CREATE INDEX fresh ON {table} USING elf (id)"),
            "VACUUM FULL".to_owned(),
        ];
        let copy = &copy[self.rng.below(copy.len() as u64) as usize];
        match opened.run(copy) {
            Ok(()) if copy.contains("copied") => {
                let answer = opened.rows("SELECT * FROM copied");
                let may_fail = self.verdict.hostile && may_fail;
                self.digest("copied", answer, (whole, after), may_fail, false);
            }
            Ok(()) => {}
            Err(error) => {
                let may_fail = may_fail || copy == "VACUUM FULL";
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

    /// Drops a table; others are as they were.
    fn drop(&mut self, opened: &Opened, inserted: &str) {
        let dropped = self.table();
        if let Err(error) = opened.run(&format!("DROP TABLE {dropped}")) {
            let may_fail = !self.verdict.only_objects() || self.verdict.owns("log");
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

    /// A table, more likely one that is damaged.
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
