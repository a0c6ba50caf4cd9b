//! A two-tier memory engine: facade.

pub use halocline_columns as columns;
pub use halocline_elf as elf;
pub use halocline_engine::*;
pub use halocline_media as media;
pub use halocline_pool as pool;
