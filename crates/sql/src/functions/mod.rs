//! Functions under the names that DuckDB and PostgreSQL have for them, where DataFusion has no such function
//! or another name for it.
//!
//! Invariants: every function takes texts of all types, constants and columns; NULL among the arguments of
//! our own makes the result NULL, and is not counted by aggregates; times are computed in 128 bits; what does not fit the
//! type of the result is an error.

mod age;
mod arguments;
mod clock;
mod constants;
mod date_diff;
mod epoch;
mod files;
mod format;
mod format_fields;
mod format_pattern;
mod format_values;
mod lists;
mod mode;
mod regexp_extract;
mod rewriter;
mod rewrites;
mod strptime;
mod stubs;
mod time_bucket;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::functions::all_default_functions;
use datafusion::functions_nested::all_default_nested_functions;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, ScalarUDFImpl};

pub(crate) use rewriter::FunctionRewriter;
use rewrites::{AGGREGATE_ALIASES, AGGREGATES, ALIASES, SCALARS};

/// Returns our functions of a row.
fn scalars() -> Vec<ScalarUDF> {
    fn function(function: impl ScalarUDFImpl + 'static) -> ScalarUDF {
        ScalarUDF::new_from_impl(function)
    }
    // Entries that only list a name come first: one that is a function as well, with other arguments, is
    // registered last.
    let mut scalars: Vec<ScalarUDF> = SCALARS
        .iter()
        .map(|rewritten| function(stubs::RewrittenScalar::new(rewritten)))
        .collect();
    scalars.extend(constants::ConstantText::all().map(function));
    scalars.extend(epoch::Epoch::all().map(function));
    scalars.extend([
        function(age::Age::new()),
        function(date_diff::DateDiff::new()),
        function(format::Format::new()),
        function(format::Format::printf()),
        function(regexp_extract::RegexpExtract::new()),
        function(strptime::Strptime::new(false)),
        function(strptime::Strptime::new(true)),
        function(time_bucket::TimeBucket::new()),
    ]);
    scalars
}

/// Adds the functions to a state that has those of DataFusion, or corrected ones in their place.
pub(crate) fn register(state: &mut SessionState) {
    // Registering fails only for what must not be replaced.
    for (name, aliases) in ALIASES {
        if let Ok(function) = state.udf(name) {
            let function = ScalarUDF::clone(&function).with_aliases(aliases.iter().copied());
            let _ = state.register_udf(Arc::new(function));
        }
    }
    for (name, aliases) in AGGREGATE_ALIASES {
        if let Ok(function) = state.udaf(name) {
            let function = AggregateUDF::clone(&function).with_aliases(aliases.iter().copied());
            let _ = state.register_udaf(Arc::new(function));
        }
    }
    for function in scalars() {
        let _ = state.register_udf(Arc::new(function));
    }
    for rewritten in &AGGREGATES {
        let function = AggregateUDF::new_from_impl(stubs::RewrittenAggregate::new(rewritten));
        let _ = state.register_udaf(Arc::new(function));
    }
    let _ = state.register_udaf(Arc::new(AggregateUDF::new_from_impl(mode::Mode::new())));
    files::register(state);
}

/// Returns the names of all functions that are added to those of DataFusion, without repetition.
pub fn names() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = files::names().map(str::to_owned).collect();
    for function in scalars() {
        names.insert(function.name().to_owned());
        names.extend(function.aliases().iter().cloned());
    }
    names.extend(AGGREGATES.iter().map(|function| function.name.to_owned()));
    names.insert("mode".to_owned());
    let aliases = ALIASES.iter().chain(&AGGREGATE_ALIASES);
    names.extend(aliases.flat_map(|(_, aliases)| aliases.iter().map(|alias| (*alias).to_owned())));
    names
}

/// Returns true if a function of a row has this name, in lower case.
pub(crate) fn is_scalar(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let mut names = HashSet::new();
        let mut add = |function: &ScalarUDF| {
            names.insert(function.name().to_owned());
            names.extend(function.aliases().iter().cloned());
        };
        all_default_functions().iter().for_each(|function| add(function));
        all_default_nested_functions()
            .iter()
            .for_each(|function| add(function));
        scalars().iter().for_each(add);
        let aliases = ALIASES.iter().flat_map(|(_, aliases)| aliases.iter());
        names.extend(aliases.map(|alias| (*alias).to_owned()));
        names
    });
    NAMES.contains(name)
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;

    use super::*;

    #[test]
    fn every_function_is_registered_under_all_of_its_names() {
        let mut state = SessionStateBuilder::new().with_default_features().build();
        for (name, _) in ALIASES {
            assert!(state.udf(name).is_ok(), "{name}");
        }
        for (name, _) in AGGREGATE_ALIASES {
            assert!(state.udaf(name).is_ok(), "{name}");
        }
        register(&mut state);
        let names = ALIASES.iter().flat_map(|(_, aliases)| aliases.iter());
        for name in names.chain(&["if", "age", "epoch_ns", "datediff", "printf", "version"]) {
            assert!(state.udf(name).is_ok() && is_scalar(name), "{name}");
        }
        let names = AGGREGATE_ALIASES.iter().flat_map(|(_, aliases)| aliases.iter());
        for name in names.chain(&["arg_max", "mode"]) {
            assert!(state.udaf(name).is_ok() && !is_scalar(name), "{name}");
        }
        assert!(state.table_functions().contains_key("read_csv"));
        // The function with two arguments, not the entry for one.
        assert!(
            state
                .udf("age")
                .unwrap()
                .inner()
                .downcast_ref::<age::Age>()
                .is_some()
        );
    }
}
