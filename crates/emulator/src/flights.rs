//! Accesses that one thread has started and that are not complete yet, found by line.

/// Places; a power of two, and several times what is in flight at once.
const PLACES: usize = 256;
/// Places tried for a line.
const TRIES: u64 = 4;

/// A small table of lines and the times at which they are there. A place whose time has come is free. Should all places
/// of a line be taken, the line that comes first gives way: it then counts as there a little too early.
#[derive(Debug)]
pub(crate) struct Flights {
    places: Box<[(u64, u64); PLACES]>,
    /// When the last of them is there.
    last: u64,
}

impl Flights {
    pub(crate) fn new() -> Flights {
        Flights {
            places: Box::new([(u64::MAX, 0); PLACES]),
            last: 0,
        }
    }

    /// Whether anything is in flight.
    #[inline(always)]
    pub(crate) fn any(&self, now: u64) -> bool {
        self.last > now
    }

    #[inline(always)]
    fn place(line: u64, step: u64) -> usize {
        ((line ^ line >> 8) + step) as usize % PLACES
    }

    #[inline(always)]
    pub(crate) fn start(&mut self, line: u64, now: u64, complete: u64) {
        self.last = self.last.max(complete);
        let mut earliest = Flights::place(line, 0);
        for step in 0..TRIES {
            let at = Flights::place(line, step);
            if self.places[at].1 <= now || self.places[at].0 == line {
                earliest = at;
                break;
            }
            if self.places[at].1 < self.places[earliest].1 {
                earliest = at;
            }
        }
        self.places[earliest] = (line, complete);
    }

    /// When the line is there; 0 if it is not in flight.
    #[inline(always)]
    pub(crate) fn complete(&self, line: u64) -> u64 {
        for step in 0..TRIES {
            let (held, complete) = self.places[Flights::place(line, step)];
            if held == line {
                return complete;
            }
        }
        0
    }
}
