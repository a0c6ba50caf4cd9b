//! `EXCLUDE` as a marker: the parser does not know the clause, so it arrives as a function without arguments
//! among the expressions of `PARTITION BY`.

use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;

/// Rows of a frame that are left out. The peers of a row are the rows of its partition that are equal to it
/// in `ORDER BY`; all of them without that clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// The row itself.
    CurrentRow,
    /// The row and its peers.
    Group,
    /// The peers of the row, but not the row.
    Ties,
}

impl Exclusion {
    const ALL: [Self; 3] = [Self::CurrentRow, Self::Group, Self::Ties];

    /// Returns the name of the marker for it, which is the clause.
    pub fn marker(self) -> &'static str {
        match self {
            Self::CurrentRow => "EXCLUDE CURRENT ROW",
            Self::Group => "EXCLUDE GROUP",
            Self::Ties => "EXCLUDE TIES",
        }
    }
}

/// Returns the markers as functions, for the names in statements to be resolved.
pub(in crate::semantics) fn markers() -> impl Iterator<Item = ScalarUDF> {
    let markers = Exclusion::ALL.into_iter();
    markers.map(|exclusion| ScalarUDF::new_from_impl(Marker::new(exclusion)))
}

/// Returns true for the marker of a window in the syntax tree.
pub(in crate::semantics) fn is_marker(expr: &SqlExpr) -> bool {
    let SqlExpr::Function(function) = expr else {
        return false;
    };
    let name = function.name.to_string();
    let mut markers = Exclusion::ALL.into_iter().map(Exclusion::marker);
    markers.any(|marker| name == format!("\"{marker}\""))
}

/// Returns what an expression marks, if it is a marker.
pub(super) fn exclusion_of(expr: &Expr) -> Option<Exclusion> {
    let Expr::ScalarFunction(function) = expr else {
        return None;
    };
    let marker = function.func.inner().downcast_ref::<Marker>()?;
    Some(marker.exclusion)
}

/// Marks the windows whose frames leave rows out.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    exclusion: Exclusion,
    signature: Signature,
}

impl Marker {
    fn new(exclusion: Exclusion) -> Self {
        Self {
            exclusion,
            signature: Signature::nullary(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        self.exclusion.marker()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(self.exclusion.marker().to_owned())
    }

    fn display_name(&self, _: &[Expr]) -> Result<String> {
        Ok(self.exclusion.marker().to_owned())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}
