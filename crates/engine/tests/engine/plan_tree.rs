//! The tree of a physical plan, read from `EXPLAIN` or `EXPLAIN ANALYZE`.

use halocline_engine::Database;

use super::support::query;

/// An operator of a physical plan.
#[derive(Debug)]
pub(crate) struct Operator {
    /// Its name.
    pub(crate) name: String,
    /// Its line.
    pub(crate) line: String,
    pub(crate) inputs: Vec<Operator>,
}

impl Operator {
    /// Reads the plan of a statement that begins with `EXPLAIN`.
    pub(crate) async fn from_explain(db: &Database, explain: &str) -> Operator {
        let text = query(db, explain).await.join("\n");
        let start = text
            .find("physical_plan|")
            .or_else(|| text.find("Plan with Metrics|"));
        let plan = &text[start.unwrap_or_else(|| panic!("{text}"))..];
        let plan = &plan[plan.find('|').unwrap() + 1..];
        let lines = plan.lines().filter(|line| !line.trim().is_empty());
        let lines: Vec<(usize, &str)> = lines
            .map(|line| ((line.len() - line.trim_start().len()) / 2, line.trim()))
            .collect();
        Self::read(&lines)
    }

    /// Reads an operator and what is indented below it.
    fn read(lines: &[(usize, &str)]) -> Operator {
        let ((depth, line), below) = lines.split_first().expect("a line");
        let starts: Vec<usize> = (0..below.len()).filter(|at| below[*at].0 == depth + 1).collect();
        let ends = starts.iter().skip(1).copied().chain([below.len()]);
        let inputs = starts
            .iter()
            .zip(ends)
            .map(|(start, end)| Self::read(&below[*start..end]));
        Operator {
            name: line.split([':', ' ', ',']).next().unwrap().to_string(),
            line: (*line).to_string(),
            inputs: inputs.collect(),
        }
    }

    /// The value of `key=value` in the line, up to a comma.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let at = self.line.find(&format!("{key}="))? + key.len() + 1;
        let rest = &self.line[at..];
        Some(rest[..rest.find([',', ']']).unwrap_or(rest.len())].trim())
    }

    /// Calls `of` for this operator and all below it.
    pub(crate) fn walk<'o>(&'o self, of: &mut dyn FnMut(&'o Operator)) {
        of(self);
        self.inputs.iter().for_each(|input| input.walk(of));
    }

    /// The joins and what they read, build side first: `(nation * supplier)`. Semi joins are `<` and anti
    /// joins `-` with the side that is kept at the wide end, outer joins `|`; an aggregate is `agg(...)`.
    pub(crate) fn shape(&self) -> String {
        if let Some(table) = self.value("table").filter(|_| self.name.ends_with("Scan")) {
            return table.to_string();
        }
        let inputs: Vec<String> = self.inputs.iter().map(Operator::shape).collect();
        let symbol = match self.value("join_type") {
            Some("Inner") => "*",
            Some("LeftSemi") => ">",
            Some("RightSemi") => "<",
            Some("LeftAnti") => "->",
            Some("RightAnti") => "<-",
            Some(_) => "|",
            None => "x",
        };
        match inputs.as_slice() {
            [] => self.name.clone(),
            inputs if self.name.starts_with("Star") => format!("star({})", inputs.join(" ")),
            [input] if self.name == "AggregateExec" && input.starts_with("agg(") => input.clone(),
            [input] if self.name == "AggregateExec" => format!("agg({input})"),
            [input] => input.clone(),
            inputs => format!("({})", inputs.join(&format!(" {symbol} "))),
        }
    }
}
