//! Functions without arguments that tell a program where it is: `version()`, `current_user` and the like.

use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::documentation;
use crate::{CATALOG, SCHEMA};

/// The version as `version()` returns it.
const VERSION: &str = concat!("Halocline ", env!("CARGO_PKG_VERSION"));

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ConstantText {
    name: &'static str,
    text: &'static str,
    signature: Signature,
    documentation: Documentation,
}

impl ConstantText {
    fn new(name: &'static str, text: &'static str, description: &str, syntax: &str) -> Self {
        Self {
            name,
            text,
            signature: Signature::nullary(Volatility::Immutable),
            documentation: documentation(description, syntax),
        }
    }

    /// Returns all of them.
    pub(super) fn all() -> [Self; 6] {
        // A pool has no users; each may do what the file permits.
        let user = "Returns the name of the only user.";
        let catalog = "Returns the name of the catalog of a pool.";
        [
            Self::new(
                "version",
                VERSION,
                "Returns the version of Halocline.",
                "version()",
            ),
            Self::new("current_user", CATALOG, user, "current_user"),
            Self::new("session_user", CATALOG, user, "session_user"),
            Self::new("current_catalog", CATALOG, catalog, "current_catalog"),
            Self::new("current_database", CATALOG, catalog, "current_database()"),
            Self::new(
                "current_schema",
                SCHEMA,
                "Returns the name of the schema of a pool.",
                "current_schema()",
            ),
        ]
    }
}

impl ScalarUDFImpl for ConstantText {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(
            self.text.to_owned(),
        ))))
    }
}
