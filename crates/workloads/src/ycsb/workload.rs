//! The six mixes of operations.

/// A core workload of YCSB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum YcsbWorkload {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// 95 % reads, mostly of the newest records, 5 % inserts.
    D,
    /// 95 % scans of up to 100 records, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

impl YcsbWorkload {
    /// All workloads, in the order of their letters.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// Returns the letter of the workload.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::A => 'A',
            Self::B => 'B',
            Self::C => 'C',
            Self::D => 'D',
            Self::E => 'E',
            Self::F => 'F',
        }
    }

    /// Returns the share of reads, or of scans in E, in percent; the rest are writes.
    #[must_use]
    pub fn read_percent(self) -> u64 {
        match self {
            Self::A | Self::F => 50,
            Self::B | Self::D | Self::E => 95,
            Self::C => 100,
        }
    }
}
