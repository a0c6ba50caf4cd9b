//! Codes that two scans share.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::{DataType, Field};
use datafusion::error::Result;
use halocline_catalog::OpenTable;
use halocline_columns::{Column, Segment};
use halocline_joins::JoinError;
use halocline_joins::equi::KeyCodes;
use halocline_sql::error::external;

/// The columns that are compared, and their codes once they were needed.
#[derive(Debug)]
pub struct SharedKeys {
    build: (Arc<OpenTable>, usize),
    probe: (Arc<OpenTable>, usize),
    codes: Mutex<Option<[KeyCodes; 2]>>,
}

impl SharedKeys {
    /// Creates the codes of columns all of whose strings have [dictionaries](KeyCodes::strings).
    pub fn new(build: (Arc<OpenTable>, usize), probe: (Arc<OpenTable>, usize)) -> Self {
        Self {
            build,
            probe,
            codes: Mutex::new(None),
        }
    }

    fn codes(&self, side: usize) -> Result<KeyCodes> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match codes.take() {
            Some(found) => found,
            None => {
                let sides = (
                    (&self.build.0.table, self.build.1),
                    (&self.probe.0.table, self.probe.1),
                );
                let shared = KeyCodes::shared(sides.0, sides.1).map_err(external)?;
                let missing = JoinError::Unsupported("a column that is compared by codes has none");
                let (build, probe) = shared.ok_or(missing).map_err(external)?;
                [build, probe]
            }
        };
        Ok(codes.insert(found)[side].clone())
    }
}

/// A column of codes in the output of a scan.
#[derive(Debug, Clone)]
pub struct CodedColumn {
    keys: Arc<SharedKeys>,
    side: usize,
}

impl CodedColumn {
    /// Returns the columns of both sides.
    pub fn of_sides(keys: SharedKeys) -> [Self; 2] {
        let keys = Arc::new(keys);
        [0, 1].map(|side| Self {
            keys: Arc::clone(&keys),
            side,
        })
    }

    /// Returns the column whose strings have the codes.
    pub fn stored_column(&self) -> usize {
        match self.side {
            0 => self.keys.build.1,
            _ => self.keys.probe.1,
        }
    }

    /// Returns the field in the output of the scan.
    pub fn field(&self) -> Field {
        let open = match self.side {
            0 => &self.keys.build.0,
            _ => &self.keys.probe.0,
        };
        let schema = open.table.schema();
        let name = schema.field(self.stored_column()).name();
        Field::new(format!("code of {name}"), DataType::UInt32, true)
    }

    /// Returns the codes of rows of the segment with this number, whose ranks are read by `ranks`.
    ///
    /// # Errors
    /// The column is damaged.
    pub fn read(
        &self,
        segment: (usize, &Segment),
        ranks: impl FnOnce(&Column) -> halocline_columns::Result<UInt32Array>,
    ) -> Result<ArrayRef> {
        let codes = self.keys.codes(self.side)?;
        Ok(Arc::new(codes.codes(segment, ranks).map_err(external)?))
    }
}
