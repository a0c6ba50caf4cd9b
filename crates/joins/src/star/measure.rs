//! Measures: the aggregated expressions over columns of the fact table, of integers and of floats.
//!
//! A result outside of the integer type of the expression is an error; a NULL operand yields NULL. Floats are
//! doubles, and operations on them round as IEEE 754 says.

/// The type of an operation: that of its operands and its result, for overflow checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
    /// 64 bits without checks, for expressions that the caller knows not to overflow.
    Fits,
    /// Floats.
    Float,
}

impl Width {
    pub(super) fn data_type(self) -> &'static str {
        match self {
            Width::W32 => "int",
            Width::W64 | Width::Fits => "bigint",
            Width::Float => "double",
        }
    }
}

/// The source of the values of a column that measures refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeasureSource {
    /// A column of the fact table.
    Fact(usize),
    /// A column of the payload of the dimension of a probe, both by position.
    Dimension {
        /// The position of the probe.
        probe: usize,
        /// The position among the columns that were [added](super::DimensionBuilder::extend) with the rows.
        column: usize,
    },
}

impl MeasureSource {
    /// Returns the column of the fact table, if it is one.
    pub fn fact(self) -> Option<usize> {
        match self {
            MeasureSource::Fact(column) => Some(column),
            MeasureSource::Dimension { .. } => None,
        }
    }
}

impl From<usize> for MeasureSource {
    fn from(column: usize) -> MeasureSource {
        MeasureSource::Fact(column)
    }
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Measure {
    /// A column of integers, by its position in [`StarJoin::measured`](super::StarJoin::measured).
    Column(usize),
    /// A column of floats, by its position in the same list.
    FloatColumn(usize),
    /// An integer.
    Literal(i64),
    /// A float, by its bits.
    FloatLiteral(u64),
    /// An integer as a float, divided by this power of ten.
    ToFloat(i8, Box<Measure>),
    /// The first value where the second is not NULL, else NULL.
    Paired(Box<Measure>, Box<Measure>),
    /// A sum.
    Add(Width, Box<Measure>, Box<Measure>),
    /// A difference.
    Subtract(Width, Box<Measure>, Box<Measure>),
    /// A product.
    Multiply(Width, Box<Measure>, Box<Measure>),
}

impl Measure {
    /// Returns true if its values are floats.
    pub fn is_float(&self) -> bool {
        match self {
            Measure::Column(_) | Measure::Literal(_) => false,
            Measure::FloatColumn(_) | Measure::FloatLiteral(_) | Measure::ToFloat(..) => true,
            Measure::Paired(value, _) => value.is_float(),
            Measure::Add(width, ..) | Measure::Subtract(width, ..) | Measure::Multiply(width, ..) => {
                *width == Width::Float
            }
        }
    }

    /// Returns true if it reads the column of floats at a position.
    pub(super) fn reads_floats(&self, position: usize) -> bool {
        match self {
            Measure::FloatColumn(column) => *column == position,
            Measure::Column(_) | Measure::Literal(_) | Measure::FloatLiteral(_) => false,
            Measure::ToFloat(_, value) => value.reads_floats(position),
            Measure::Paired(left, right)
            | Measure::Add(_, left, right)
            | Measure::Subtract(_, left, right)
            | Measure::Multiply(_, left, right) => {
                left.reads_floats(position) || right.reads_floats(position)
            }
        }
    }
}
