//! `EXPLAIN` on a terminal: each plan as a tree that is no wider than a line.
//!
//! A node has a line with its name and, where the plan was run, its time, rows and bytes; below it, its fields
//! and its other metrics, broken at commas. Plans in other forms than DataFusion's indented one are printed as
//! they are.

mod draw;
mod node;

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Schema};
use halocline_terminal::CliError;

use draw::{draw, wrap};
use node::parse;

/// Takes the rows of `EXPLAIN`, each a kind of plan and its text, and draws them.
pub(super) struct PlanSink {
    width: usize,
    plans: Vec<(String, String)>,
    out: Box<dyn Write>,
}

impl PlanSink {
    /// Returns true if an answer has the columns of `EXPLAIN`.
    pub(super) fn can_draw(schema: &Schema) -> bool {
        let columns = schema.fields().iter();
        let columns = columns.map(|field| (field.name().as_str(), field.data_type()));
        columns.eq([("plan_type", &DataType::Utf8), ("plan", &DataType::Utf8)])
    }

    /// Draws plans in lines of `width` characters.
    pub(super) fn new(width: usize, out: Box<dyn Write>) -> Self {
        Self {
            width,
            plans: Vec::new(),
            out,
        }
    }

    /// Keeps the plans of a batch.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), CliError> {
        let [kinds, plans] = [0, 1].map(|column| batch.column(column).as_string::<i32>());
        for row in 0..batch.num_rows() {
            let text = |column: &StringArray| {
                if column.is_null(row) {
                    String::new()
                } else {
                    column.value(row).to_owned()
                }
            };
            self.plans.push((text(kinds), text(plans)));
        }
        Ok(())
    }

    /// Prints the plans.
    pub(super) fn finish(mut self) -> Result<(), CliError> {
        for (at, (kind, plan)) in self.plans.iter().enumerate() {
            if at > 0 {
                writeln!(self.out)?;
            }
            writeln!(self.out, "{}", kind.replace('_', " "))?;
            match parse(plan) {
                Some(nodes) => self.out.write_all(draw(&nodes, self.width).as_bytes())?,
                None if plan.trim_end().contains('\n') => writeln!(self.out, "{}", plan.trim_end())?,
                None => {
                    for line in wrap(plan.trim_end(), self.width) {
                        writeln!(self.out, "{line}")?;
                    }
                }
            }
        }
        Ok(self.out.flush()?)
    }
}
