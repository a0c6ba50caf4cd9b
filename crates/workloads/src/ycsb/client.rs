//! One thread of a run.

use std::collections::HashSet;
use std::time::Instant;

use super::{YcsbError, YcsbGenerator, YcsbOp, YcsbPair, YcsbRun, YcsbStore, ycsb_key};
use crate::ZipfError;

/// One thread of a run.
pub(super) struct Client<'a, S: YcsbStore + ?Sized> {
    store: &'a S,
    run: YcsbRun,
    generator: YcsbGenerator,
    /// Writes that are not committed yet.
    pending: Vec<YcsbPair>,
    /// Records that are inserted, but not committed yet.
    inserted: HashSet<u64>,
    version: u64,
    value: Vec<u8>,
    pub(super) latencies: Vec<u64>,
    pub(super) read: u64,
    pub(super) scanned: u64,
}

impl<'a, S: YcsbStore + ?Sized> Client<'a, S> {
    pub(super) fn new(store: &'a S, run: YcsbRun, thread: u64) -> Result<Self, ZipfError> {
        Ok(Self {
            store,
            run,
            generator: YcsbGenerator::new(run.workload, run.records, run.seed, thread, run.threads)?,
            pending: Vec::new(),
            inserted: HashSet::new(),
            version: 0,
            value: Vec::new(),
            latencies: Vec::with_capacity((run.operations / run.threads) as usize),
            read: 0,
            scanned: 0,
        })
    }

    pub(super) fn run(mut self) -> Result<Self, YcsbError<S::Error>> {
        for number in 1..=self.run.operations / self.run.threads {
            let start = Instant::now();
            let op = self.generator.next_op();
            self.execute(op)?;
            if number % self.run.commit == 0 {
                self.commit()?;
            }
            self.latencies.push(start.elapsed().as_nanos() as u64);
        }
        self.commit()?;
        Ok(self)
    }

    fn execute(&mut self, op: YcsbOp) -> Result<(), YcsbError<S::Error>> {
        match op {
            YcsbOp::Read(record) => self.read(record)?,
            YcsbOp::Update(record) => self.write(record),
            YcsbOp::Insert(record) => {
                self.inserted.insert(record);
                self.write(record);
            }
            YcsbOp::Scan { start, length } => {
                let key = ycsb_key(start);
                let scanned = self.store.scan(key.as_bytes(), length as usize);
                self.scanned += scanned.map_err(YcsbError::Store)?;
            }
            YcsbOp::ReadModifyWrite(record) => {
                self.read(record)?;
                self.write(record);
            }
        }
        Ok(())
    }

    fn read(&mut self, record: u64) -> Result<(), YcsbError<S::Error>> {
        let key = ycsb_key(record);
        let found = self.store.read(key.as_bytes(), &mut self.value);
        let found = found.map_err(YcsbError::Store)?;
        // Workload D reads what was just inserted, which may be in the commit that is being collected.
        if !found && !self.inserted.contains(&record) {
            return Err(YcsbError::Missing(record));
        }
        self.read += u64::from(found);
        Ok(())
    }

    fn write(&mut self, record: u64) {
        self.version += 1;
        self.pending.push(self.run.pair(record, self.version));
    }

    fn commit(&mut self) -> Result<(), YcsbError<S::Error>> {
        if !self.pending.is_empty() {
            self.store.write(&self.pending).map_err(YcsbError::Store)?;
            self.pending.clear();
            self.inserted.clear();
        }
        Ok(())
    }
}
