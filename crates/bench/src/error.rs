//! Why an experiment ended without a result.

use std::io;

use arrow_schema::ArrowError;
use datafusion::error::DataFusionError;
use halocline_calibrate::CalibrateError;
use halocline_columns::ColumnsError;
use halocline_elf::ElfError;
use halocline_engine::EngineError;
use halocline_joins::JoinError;
use halocline_measure::reopen::ReopenError;
use halocline_media::{MediaError, ProfileInconsistency};
use halocline_ordered::TreeError;
use halocline_pool::PoolError;
use halocline_store::StoreError;
use halocline_terminal::CliError;

/// Why an experiment ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The results cannot be written, or a file cannot be made.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The engine reports an error.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Memory or a medium reports an error.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The pool reports an error.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A tree reports an error.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A key-value store reports an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A table reports an error.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// A join reports an error.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A medium cannot be measured.
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    /// A measured profile makes no sense.
    #[error(transparent)]
    Profile(#[from] ProfileInconsistency),
    /// An index reports an error.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// A restart was not measured.
    #[error(transparent)]
    Reopen(#[from] ReopenError),
    /// Arrow reports an error.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// DataFusion, run beside us, reports an error.
    #[error("DataFusion: {0}")]
    DataFusion(#[from] DataFusionError),
    /// Two systems that must agree do not: a bug, and no times are worth reporting.
    #[error("answers differ for {what}: {left} from {left_system}, {right} from {right_system}")]
    Disagreement {
        /// The query.
        what: String,
        /// One system.
        left_system: String,
        /// Its answer.
        left: String,
        /// The other system.
        right_system: String,
        /// Its answer.
        right: String,
    },
    /// A figure cannot be drawn.
    #[error("the figure `{title}` cannot be drawn: {reason}")]
    Figure {
        /// Its title.
        title: String,
        /// Why.
        reason: String,
    },
    /// Something around the experiment failed.
    #[error("{0}")]
    Setup(String),
}

impl From<BenchError> for CliError {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Io(error) => error.into(),
            other => Self::failed(other.to_string()),
        }
    }
}
