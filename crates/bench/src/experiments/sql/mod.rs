//! Shared parts of the experiments that ask SQL queries of pools on several media: directories whose files
//! are kept, sessions, queries in turn, and the DRAM that queries take.

mod directory;
mod dram;
mod session;
mod turns;

pub(super) use directory::{PoolDirectory, import, whole};
pub(super) use dram::{NO_DRAM, query_peak};
pub(super) use session::SqlSession;
pub(super) use turns::{NamedSession, QueryTimes, ask_in_turn};
