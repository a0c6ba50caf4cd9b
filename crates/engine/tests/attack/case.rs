//! One case: a changed copy of the pool, read, written and checked, and the verdict on each answer.

use std::fs;
use std::path::{Path, PathBuf};

use halocline_engine::EngineError;
use halocline_workloads::SplitMix64;
use xxhash_rust::xxh3::xxh3_64;

use crate::answers::{Answers, Opened, copy_at};
use crate::damage::{self, Damaged};
use crate::digest::Digest;
use crate::image::{Image, SLOT, SLOTS, SUPERBLOCK, word};
use crate::tables::{ASKS, Ask};
use crate::verdict::Verdict;
use crate::{hostile, items, pristine, stores};

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
        unsure: Vec::new(),
    };
    case.read();
    case.look_at_trees();
    case.look_at_stores();
    case.look_at_items();
    case.change_keyed();
    case.write();
    let Damaged { story, owners, .. } = &damaged;
    let faults = case.verdict.faults.iter();
    faults
        .map(|fault| format!("{fault} [{story} {owners:?}]"))
        .collect()
}

/// A case that is running.
pub(crate) struct Case<'a> {
    pub(crate) verdict: Verdict,
    answers: &'a Answers,
    pub(crate) rng: SplitMix64,
    pub(crate) path: PathBuf,
    /// Tables of which only some changes succeeded, so that their rows are not known.
    pub(crate) unsure: Vec<&'static str>,
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

    pub(crate) fn open(&mut self, read_only: bool) -> Option<Opened> {
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
            Ok(mut problems) => {
                problems.extend(stores::problems(&self.path));
                problems.extend(items::problems(&self.path));
                self.verdict.checked(&problems);
            }
            Err(error) => self
                .verdict
                .refused("check", !self.verdict.only_objects(), &error.to_string()),
        }
    }

    pub(crate) fn judge(
        &mut self,
        ask: &Ask,
        answer: Result<Digest, EngineError>,
        number: usize,
        after: bool,
    ) {
        let what = format!("{:?} {}", ask.index, ask.sql);
        let by_index = ask.index.is_some();
        let may_fail = self.verdict.may_fail(ask.table, by_index);
        self.digest(&what, answer, (number, after), may_fail, by_index);
    }

    pub(crate) fn digest(
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
        if !right && !self.unsure.contains(&ASKS[number].table) {
            let text = format!("{digest:?} instead of {:?}", self.answers.newest.before[number]);
            let own = self.verdict.involves(ASKS[number].table, by_index);
            self.verdict.wrong(what, &text, own);
        }
    }
}
