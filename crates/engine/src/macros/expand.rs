//! The expansion of calls of macros in a syntax tree.
//!
//! A call is replaced by the expression of the macro, with the arguments in place of the parameters. An
//! argument is evaluated as often as the expression names its parameter. A column of the result keeps the
//! text of the call as its name.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select,
    SelectItem, Visitor, VisitorMut,
};
use halocline_catalog::Catalog;
use halocline_sql::parse::identifier;
use halocline_sql::syntax::{walk, walk_mut};
use halocline_sql::{CATALOG, EngineError, POOL_SCHEMA, SCHEMA};

use super::definition::{MacroDefinition, parse_expression, parse_type};

/// Macros that may call each other in a chain.
const MAX_MACRO_DEPTH: usize = 32;
/// Expressions that the calls of a statement may become.
const MAX_EXPANDED: usize = 10_000;
/// Levels of the expression that a call becomes, for which any thread's stack has room.
const MAX_LEVELS: usize = 128;

/// Replaces the calls of macros.
pub(crate) struct MacroExpander<'a> {
    catalog: &'a Catalog,
    /// The macros that were called, with their expressions expanded.
    bodies: BTreeMap<String, (MacroDefinition, Expr)>,
    /// The macros whose expressions are being expanded, each of which calls the next one.
    above: Vec<String>,
    /// Expressions that were put in place of calls so far.
    expanded: usize,
}

impl<'a> MacroExpander<'a> {
    /// Creates a visitor for the macros of a version of the database.
    pub(crate) fn new(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            bodies: BTreeMap::new(),
            above: Vec::new(),
            expanded: 0,
        }
    }

    /// Returns the name of the macro that a function stands for; `None` if it is none.
    fn macro_name(&self, name: &ObjectName) -> Option<String> {
        function_name(name).filter(|name| self.catalog.objects().has_macro(name))
    }

    /// Returns the expression that takes the place of a call.
    fn expand(&mut self, name: &str, call: Function) -> Result<Expr, EngineError> {
        let wrong = |reason: &str| EngineError::Query(format!("macro {name}: {reason}"));
        if !self.bodies.contains_key(name) {
            let body = self.body(name)?;
            self.bodies.insert(name.to_owned(), body);
        }
        let Some((definition, body)) = self.bodies.get(name) else {
            return Err(wrong("it is not there any more"));
        };
        if call.filter.is_some()
            || call.over.is_some()
            || call.null_treatment.is_some()
            || !call.within_group.is_empty()
            || call.parameters != FunctionArguments::None
        {
            return Err(wrong(
                "a call has only arguments, without OVER, FILTER and the like",
            ));
        }
        let arguments = arguments(name, definition, call)?;
        let mut substitution = Substitution {
            arguments: &arguments,
            replaced: 1,
        };
        let mut expr = body.clone();
        let _ = walk_mut(&mut expr, &mut substitution);
        self.expanded += substitution.replaced;
        if self.expanded > MAX_EXPANDED {
            return Err(wrong("the calls of the statement become too many expressions"));
        }
        if levels(&expr) > MAX_LEVELS {
            return Err(wrong(&format!(
                "a call becomes an expression of more than {MAX_LEVELS} levels"
            )));
        }
        Ok(expr)
    }

    /// Reads the expression of a macro, and expands the calls in it.
    fn body(&mut self, name: &str) -> Result<(MacroDefinition, Expr), EngineError> {
        let wrong = |reason: String| EngineError::Query(format!("macro {name}: {reason}"));
        if self.above.iter().any(|above| above == name) {
            return Err(wrong("it calls itself, directly or through others".into()));
        }
        if self.above.len() >= MAX_MACRO_DEPTH {
            return Err(wrong(format!(
                "more than {MAX_MACRO_DEPTH} macros call each other in a chain"
            )));
        }
        let record = self.catalog.objects().macro_record(name).unwrap_or_default();
        let definition = MacroDefinition::decode(record).map_err(wrong)?;
        let mut body = parse_expression(&definition.body)?;
        if let Some(data_type) = &definition.returns {
            body = cast(body, data_type)?;
        }
        self.above.push(name.to_owned());
        let expanded = walk_mut(&mut body, self);
        self.above.pop();
        match expanded {
            ControlFlow::Continue(()) => Ok((definition, body)),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

impl VisitorMut for MacroExpander<'_> {
    type Break = EngineError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<EngineError> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && walk(
                    &*expr,
                    &mut CallFinder(|name: &ObjectName| self.macro_name(name).is_some()),
                )
                .is_break()
            {
                let alias = Ident::with_quote('"', expr.to_string());
                let expr = expr.clone();
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        let Some(name) = self.macro_name(&function.name) else {
            return ControlFlow::Continue(());
        };
        match self.expand(&name, function.clone()) {
            Ok(expanded) => {
                *expr = expanded;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Replaces the calls of macros in a syntax tree, which `walk` visits, and returns true if there are some.
///
/// # Errors
/// A call cannot be expanded.
pub(crate) fn expanded(
    catalog: &Catalog,
    walk: impl FnOnce(&mut MacroExpander<'_>) -> ControlFlow<EngineError>,
) -> Result<bool, EngineError> {
    if !catalog.objects().has_macros() {
        return Ok(false);
    }
    let mut expander = MacroExpander::new(catalog);
    match walk(&mut expander) {
        ControlFlow::Continue(()) => Ok(!expander.bodies.is_empty()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Returns the name of a function as macros are looked up; `None` if it is in another schema.
fn function_name(name: &ObjectName) -> Option<String> {
    let parts = name.0.iter().filter_map(|part| part.as_ident()).map(identifier);
    let parts: Vec<String> = parts.collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [name] | [SCHEMA | POOL_SCHEMA, name] | [CATALOG, SCHEMA | POOL_SCHEMA, name] => {
            Some((*name).to_owned())
        }
        _ => None,
    }
}

/// Stops at a call of a function whose name fulfils a condition.
struct CallFinder<F>(F);

impl<F: Fn(&ObjectName) -> bool> Visitor for CallFinder<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if (self.0)(&function.name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Puts arguments in place of parameters.
struct Substitution<'a> {
    arguments: &'a BTreeMap<String, Expr>,
    /// Number of expressions.
    replaced: usize,
}

impl VisitorMut for Substitution<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = &*expr
            && let Some(argument) = self.arguments.get(&identifier(name))
        {
            self.replaced += 1;
            *expr = Expr::Nested(Box::new(argument.clone()));
        }
        ControlFlow::Continue(())
    }
}

/// Returns the number of levels of an expression, up to one more than a call may become.
fn levels(expr: &Expr) -> usize {
    let mut levels = Levels::default();
    let _ = walk(expr, &mut levels);
    levels.most
}

/// Counts the levels of an expression.
#[derive(Default)]
struct Levels {
    now: usize,
    most: usize,
}

impl Visitor for Levels {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.now += 1;
        self.most = self.most.max(self.now);
        if self.most > MAX_LEVELS {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.now -= 1;
        ControlFlow::Continue(())
    }
}

/// Returns the arguments of a call by the names of the parameters.
///
/// # Errors
/// There are too many or too few; one has no parameter.
fn arguments(
    name: &str,
    definition: &MacroDefinition,
    call: Function,
) -> Result<BTreeMap<String, Expr>, EngineError> {
    let parameters = &definition.parameters;
    let wrong = |reason: String| {
        let names: Vec<&str> = parameters
            .iter()
            .map(|parameter| parameter.name.as_str())
            .collect();
        EngineError::Query(format!("macro {name}({}): {reason}", names.join(", ")))
    };
    let given = match call.args {
        FunctionArguments::List(list) if list.duplicate_treatment.is_none() && list.clauses.is_empty() => {
            list.args
        }
        FunctionArguments::None => Vec::new(),
        _ => {
            return Err(wrong(
                "its arguments are expressions, without DISTINCT and the like".into(),
            ));
        }
    };
    let mut arguments = BTreeMap::new();
    let mut positional = 0;
    for argument in given {
        let (parameter, argument) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                positional += 1;
                let parameter = parameters
                    .get(positional - 1)
                    .map(|parameter| parameter.name.clone());
                let parameter = parameter.ok_or_else(|| wrong("a call has more arguments".into()))?;
                (parameter, expr)
            }
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(expr),
                ..
            } => (identifier(&name), expr),
            other => return Err(wrong(format!("{other} is not an argument"))),
        };
        let Some(known) = parameters.iter().find(|known| known.name == parameter) else {
            return Err(wrong(format!("it has no parameter {parameter}")));
        };
        let argument = match &known.data_type {
            Some(data_type) => cast(argument, data_type)?,
            None => argument,
        };
        if arguments.insert(parameter.clone(), argument).is_some() {
            return Err(wrong(format!("{parameter} is given twice")));
        }
    }
    for parameter in parameters {
        if arguments.contains_key(&parameter.name) {
            continue;
        }
        let Some(default) = &parameter.default else {
            return Err(wrong(format!("a call does not give {}", parameter.name)));
        };
        let mut default = parse_expression(default)?;
        if let Some(data_type) = &parameter.data_type {
            default = cast(default, data_type)?;
        }
        arguments.insert(parameter.name.clone(), default);
    }
    Ok(arguments)
}

/// Returns a cast to the type of this text.
///
/// # Errors
/// There is no such type.
fn cast(expr: Expr, data_type: &str) -> Result<Expr, EngineError> {
    Ok(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: parse_type(data_type)?,
        array: false,
        format: None,
    })
}
