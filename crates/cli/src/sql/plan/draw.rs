//! Drawing the nodes of a plan as a tree.

use std::fmt::Write;

use super::node::PlanNode;

/// Characters that fields have in a line at least, however deep their node is.
const MIN_FIELDS_WIDTH: usize = 24;

/// A figure that has a column of its own.
struct Figure {
    heading: &'static str,
    /// The metrics that can have it; a node has the first of them that it knows.
    metrics: &'static [&'static str],
}

/// The figures in the order of their columns.
static FIGURES: [Figure; 5] = [
    Figure {
        heading: "time",
        metrics: &["elapsed_compute", "run_time"],
    },
    Figure {
        heading: "rows",
        metrics: &["output_rows"],
    },
    Figure {
        heading: "read",
        metrics: &["bytes_read", "bytes_scanned"],
    },
    Figure {
        heading: "DRAM",
        metrics: &["dram_peak", "peak_memory_bytes", "build_mem_used"],
    },
    Figure {
        heading: "spilled",
        metrics: &["spill_file_bytes", "spilled_bytes"],
    },
];

/// Draws a plan in lines of `width` characters at most.
pub(super) fn draw(nodes: &[PlanNode], width: usize) -> String {
    let columns = Columns::new(nodes);
    let mut text = String::new();
    if !columns.0.is_empty() {
        let headings = columns.0.iter().map(|(figure, _)| figure.heading);
        push_line(&mut text, "", &columns.line(headings), width);
    }
    for (at, node) in nodes.iter().enumerate() {
        let tree = Branches::new(nodes, at);
        let figures = columns
            .0
            .iter()
            .map(|(figure, _)| value(node, figure).unwrap_or(""));
        push_line(
            &mut text,
            &format!("{}{}", tree.before_name(), node.name),
            &columns.line(figures),
            width,
        );
        let prefix = tree.before_fields();
        let room = width.saturating_sub(prefix.chars().count()).max(MIN_FIELDS_WIDTH);
        for line in details(node).iter().flat_map(|list| wrap(list, room)) {
            let _ = writeln!(text, "{prefix}{line}");
        }
    }
    text
}

/// Adds a line with figures at its right end, or in a line of their own if they have no room there.
fn push_line(text: &mut String, left: &str, right: &str, width: usize) {
    let (length, figures) = (left.chars().count(), right.chars().count());
    if right.trim().is_empty() {
        let _ = writeln!(text, "{left}");
    } else if length + 1 + figures <= width {
        let _ = writeln!(text, "{left}{right:>room$}", room = width - length);
    } else {
        let _ = writeln!(text, "{left}\n{right:>width$}");
    }
}

/// Returns a node's value of a figure, unless it is zero.
fn value<'a>(node: &'a PlanNode, figure: &Figure) -> Option<&'a str> {
    let known = figure.metrics.iter().find_map(|name| {
        let metric = node.metrics.iter().find(|(metric, _)| metric == name);
        metric.map(|(_, value)| value.as_str())
    });
    known.filter(|value| figure.heading == "rows" || !is_zero(value))
}

fn is_zero(value: &str) -> bool {
    value.starts_with('0') && !value.contains(|c: char| matches!(c, '1'..='9'))
}

/// Returns the lists below the name of a node: its fields, and the metrics that have no column.
fn details(node: &PlanNode) -> Vec<String> {
    let has_column = |name: &str| {
        let figures = FIGURES.iter();
        let mut taken = figures.filter_map(|figure| figure.metrics.iter().find(|metric| known(node, metric)));
        taken.any(|metric| *metric == name)
    };
    let others = node.metrics.iter();
    let others = others.filter(|(name, value)| !has_column(name) && !is_zero(value));
    let others: Vec<_> = others.map(|(name, value)| format!("{name}={value}")).collect();
    let lists = [node.fields.clone(), others.join(", ")];
    lists.into_iter().filter(|list| !list.is_empty()).collect()
}

fn known(node: &PlanNode, metric: &str) -> bool {
    node.metrics.iter().any(|(name, _)| name == metric)
}

/// Breaks a list into lines of `room` characters, at its commas where there are some.
pub(super) fn wrap(list: &str, room: usize) -> Vec<String> {
    // One character is for the comma at the end of a line.
    let room = room.saturating_sub(1).max(1);
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for part in list.split(", ") {
        let length = part.chars().count();
        if used > 0 && used + ", ".len() + length > room {
            line.push(',');
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if used > 0 {
            line.push_str(", ");
            used += ", ".len();
        }
        for character in part.chars() {
            if used == room {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(character);
            used += 1;
        }
    }
    lines.push(line);
    lines
}

/// The columns of figures that a plan has, and their widths.
struct Columns(Vec<(&'static Figure, usize)>);

impl Columns {
    fn new(nodes: &[PlanNode]) -> Self {
        let widths = FIGURES.iter().filter_map(|figure| {
            let values = nodes.iter().filter_map(|node| value(node, figure));
            let widest = values.map(|value| value.chars().count()).max()?;
            Some((figure, widest.max(figure.heading.len())))
        });
        Self(widths.collect())
    }

    /// Returns a line of values, each at the right of its column.
    fn line<'a>(&self, values: impl Iterator<Item = &'a str>) -> String {
        let cells = self.0.iter().zip(values);
        cells
            .map(|(&(_, width), value)| format!("  {value:>width$}"))
            .collect()
    }
}

/// The lines to the left of a node.
struct Branches {
    /// For each ancestor below the root, and the node itself: is it followed by a sibling?
    siblings: Vec<bool>,
    has_children: bool,
}

impl Branches {
    fn new(nodes: &[PlanNode], at: usize) -> Self {
        let node = &nodes[at];
        let siblings = (1..=node.depth).map(|depth| {
            // The next node that is no deeper decides.
            let next = nodes[at + 1..].iter().find(|next| next.depth <= depth);
            next.is_some_and(|next| next.depth == depth)
        });
        Self {
            siblings: siblings.collect(),
            has_children: nodes.get(at + 1).is_some_and(|next| next.depth > node.depth),
        }
    }

    fn before_name(&self) -> String {
        let Some((own, ancestors)) = self.siblings.split_last() else {
            return String::new();
        };
        let mut text = bars(ancestors);
        text.push_str(if *own { "├─ " } else { "└─ " });
        text
    }

    fn before_fields(&self) -> String {
        let mut text = bars(&self.siblings);
        text.push_str(if self.has_children { "│  " } else { "   " });
        text
    }
}

fn bars(siblings: &[bool]) -> String {
    let bars = siblings
        .iter()
        .map(|sibling| if *sibling { "│  " } else { "   " });
    bars.collect()
}

#[cfg(test)]
mod tests {
    use super::super::node::parse;
    use super::*;

    #[test]
    fn plans_are_trees() {
        let plan = "HashJoinExec: mode=Partitioned, on=[(a, b)]\n  PoolScan: table=t\n    Leaf\n  PoolScan: table=u\n";
        assert_eq!(
            draw(&parse(plan).unwrap(), 80),
            "HashJoinExec\n\
             │  mode=Partitioned, on=[(a, b)]\n\
             ├─ PoolScan\n\
             │  │  table=t\n\
             │  └─ Leaf\n\
             └─ PoolScan\n\
             \u{20}     table=u\n"
        );
    }

    #[test]
    fn metrics_have_columns() {
        let plan = "SortExec: expr=[a], metrics=[output_rows=3, elapsed_compute=1.5ms, spill_count=0, spilled_bytes=0.0 B]\n  \
                    StarJoin: fact=t, metrics=[rows_fact=100, bytes_read=2.7 M, dram_peak=12]\n";
        let text = draw(&parse(plan).unwrap(), 40);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["time", "rows", "read", "DRAM"], "{text}");
        assert_eq!(lines[1], ["SortExec", "1.5ms", "3"], "{text}");
        assert_eq!(lines[2], ["│", "expr=[a]"], "{text}");
        assert_eq!(lines[3], ["└─", "StarJoin", "2.7", "M", "12"], "{text}");
        assert_eq!(lines[4..], [["fact=t"], ["rows_fact=100"]], "{text}");
        let ends = |at: usize| text.lines().nth(at).map(|line| line.chars().count());
        assert_eq!([0, 1, 3].map(ends), [Some(40); 3], "{text}");
    }

    #[test]
    fn long_fields_are_broken() {
        let columns: Vec<_> = (0..60).map(|at| format!("column_{at}")).collect();
        let plan = format!(
            "PoolScan: table=t, columns=[{}], estimated_rows=1",
            columns.join(", ")
        );
        let text = draw(&parse(&plan).unwrap(), 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        let together: String = text.lines().skip(1).map(str::trim_start).collect();
        assert!(together.contains("column_59"), "{text}");
        assert_eq!(wrap("a, b, c", 6), ["a, b,", "c"]);
        assert_eq!(wrap("abcdef", 4), ["abc", "def"]);
    }
}
