//! Entries in the list of functions for those that are written as others. A call that reaches one has
//! arguments or clauses that it does not take.

use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl,
    Signature, Volatility,
};

use super::arguments::{documentation, refused};
use super::rewrites::RewrittenFunction;

/// An entry for a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StubEntry {
    name: &'static str,
    signature: Signature,
    documentation: Documentation,
}

impl StubEntry {
    fn new(function: &RewrittenFunction) -> Self {
        let description = format!("The same as `{}`.", function.becomes);
        let syntax = format!("{}({})", function.name, function.arguments);
        Self {
            name: function.name,
            signature: Signature::variadic_any(Volatility::Immutable),
            documentation: documentation(&description, &syntax),
        }
    }

    fn refuse<T>(&self) -> Result<T> {
        refused(format!(
            "{} does not take these arguments or clauses; write {}",
            self.name, self.documentation.syntax_example
        ))
    }
}

/// A function of a row.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RewrittenScalar(StubEntry);

/// An aggregate.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RewrittenAggregate(StubEntry);

impl RewrittenScalar {
    pub(super) fn new(function: &RewrittenFunction) -> Self {
        Self(StubEntry::new(function))
    }
}

impl RewrittenAggregate {
    pub(super) fn new(function: &RewrittenFunction) -> Self {
        Self(StubEntry::new(function))
    }
}

impl ScalarUDFImpl for RewrittenScalar {
    fn name(&self) -> &str {
        self.0.name
    }

    fn signature(&self) -> &Signature {
        &self.0.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        self.0.refuse()
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.0.documentation)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.refuse()
    }
}

impl AggregateUDFImpl for RewrittenAggregate {
    fn name(&self) -> &str {
        self.0.name
    }

    fn signature(&self) -> &Signature {
        &self.0.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        self.0.refuse()
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.0.documentation)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.0.refuse()
    }
}
