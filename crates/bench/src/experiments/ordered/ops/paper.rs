//! Rates of public programs, in millions of operations a second: one thread, a file in /dev/shm with `clwb`
//! really executed, 10 M random keys of 8 bytes loaded by inserts, on another machine with two cores. They
//! are printed beside ours for scale.

use super::Operation;

/// A program and its rates by operation: insert, get, get by Zipf 0.99, remove, scan of 100.
pub(super) struct Public {
    pub(super) name: &'static str,
    rates: [Option<f64>; 5],
}

pub(super) const ALL: [Public; 4] = [
    Public {
        name: "LB+-Tree, original",
        rates: [Some(1.16), Some(1.78), Some(2.39), Some(1.74), Some(0.22)],
    },
    Public {
        name: "FPTree, sfu-dis",
        rates: [Some(0.63), Some(0.99), Some(1.40), Some(0.76), Some(0.16)],
    },
    Public {
        name: "FAST&FAIR, clwb",
        rates: [Some(0.61), Some(0.96), Some(1.49), Some(0.47), Some(0.34)],
    },
    Public {
        name: "TLBtree",
        rates: [Some(1.05), Some(1.15), Some(1.54), Some(0.83), None],
    },
];

impl Public {
    pub(super) fn rate(&self, operation: Operation) -> Option<f64> {
        match operation {
            Operation::Insert => self.rates[0],
            Operation::Get => self.rates[1],
            Operation::GetZipf => self.rates[2],
            Operation::Remove => self.rates[3],
            Operation::Scan => self.rates[4],
            _ => None,
        }
    }
}
