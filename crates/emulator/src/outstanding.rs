//! Accesses of one thread that have started and not completed, indexed by line.

/// Number of slots: a power of two, and several times what is in flight at once.
const SLOTS: usize = 256;
/// Slots probed per line.
const PROBES: u64 = 4;

/// A small hash table from lines to their arrival times. A slot whose time has passed is free. If all slots
/// of a line are taken, the entry that arrives first is replaced; that line then counts as arrived slightly
/// too early.
#[derive(Debug)]
pub(crate) struct OutstandingMisses {
    slots: Box<[(u64, u64); SLOTS]>,
    /// Arrival time of the last access.
    last: u64,
}

impl OutstandingMisses {
    pub(crate) fn new() -> OutstandingMisses {
        OutstandingMisses {
            slots: Box::new([(u64::MAX, 0); SLOTS]),
            last: 0,
        }
    }

    /// Returns true if any access is in flight.
    #[inline(always)]
    pub(crate) fn any(&self, now: u64) -> bool {
        self.last > now
    }

    #[inline(always)]
    fn slot(line: u64, step: u64) -> usize {
        ((line ^ line >> 8) + step) as usize % SLOTS
    }

    #[inline(always)]
    pub(crate) fn start(&mut self, line: u64, now: u64, complete: u64) {
        self.last = self.last.max(complete);
        let mut earliest = OutstandingMisses::slot(line, 0);
        for step in 0..PROBES {
            let at = OutstandingMisses::slot(line, step);
            if self.slots[at].1 <= now || self.slots[at].0 == line {
                earliest = at;
                break;
            }
            if self.slots[at].1 < self.slots[earliest].1 {
                earliest = at;
            }
        }
        self.slots[earliest] = (line, complete);
    }

    /// Returns the time at which the line arrives, or 0 if it is not in flight.
    #[inline(always)]
    pub(crate) fn complete(&self, line: u64) -> u64 {
        for step in 0..PROBES {
            let (held, complete) = self.slots[OutstandingMisses::slot(line, step)];
            if held == line {
                return complete;
            }
        }
        0
    }
}
