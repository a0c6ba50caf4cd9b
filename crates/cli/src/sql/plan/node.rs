//! The nodes of a plan, read from DataFusion's indented text.

/// Blanks by which a node is indented below its parent.
const INDENT: usize = 2;

/// A node of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlanNode {
    /// Its distance from the root.
    pub(super) depth: usize,
    pub(super) name: String,
    /// The text after its name, without the metrics.
    pub(super) fields: String,
    /// Its metrics and their values.
    pub(super) metrics: Vec<(String, String)>,
}

/// Reads the nodes of a plan in the order of its lines; `None` if the text is no indented plan.
pub(super) fn parse(text: &str) -> Option<Vec<PlanNode>> {
    let mut nodes: Vec<PlanNode> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        let deepest = nodes.last().map_or(0, |last| last.depth + 1);
        let is_node = indent.is_multiple_of(INDENT)
            && indent / INDENT <= deepest
            && (nodes.is_empty() || indent > 0)
            && body.starts_with(|c: char| c.is_ascii_uppercase());
        if is_node {
            nodes.push(node(indent / INDENT, body));
        } else {
            // A text of the statement with a line break in it.
            let last = nodes.last_mut()?;
            last.fields.push(' ');
            last.fields.push_str(body);
        }
    }
    Some(nodes)
}

fn node(depth: usize, line: &str) -> PlanNode {
    let (name, rest) = line.split_once(':').unwrap_or((line, ""));
    let (name, rest) = match name.split_once(", metrics=[") {
        Some((name, _)) => (name, &line[name.len()..]),
        None => (name, rest),
    };
    let (fields, metrics) = match rest.rfind("metrics=[") {
        Some(at) if rest.ends_with(']') => (&rest[..at], &rest[at + "metrics=[".len()..rest.len() - 1]),
        _ => (rest, ""),
    };
    PlanNode {
        depth,
        name: name.trim().to_owned(),
        fields: fields.trim().trim_matches(',').trim().to_owned(),
        metrics: split(metrics).filter_map(metric).collect(),
    }
}

fn metric(text: &str) -> Option<(String, String)> {
    let (name, value) = text.rsplit_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

/// Splits a list at the commas that are not within brackets.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = list.split(move |c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_names_fields_and_metrics() {
        let text = "AggregateExec: mode=Final, gby=[], metrics=[output_rows=1, elapsed_compute=12.5µs]\n  \
                    CoalescePartitionsExec, metrics=[]\n    \
                    PoolScan: table=t, filter=[a = 'x: y', b IN (1, 2)], metrics=[output_rows=1.23 K]\n";
        let nodes = parse(text).unwrap();
        let shown: Vec<_> = nodes
            .iter()
            .map(|node| {
                (
                    node.depth,
                    node.name.as_str(),
                    node.fields.as_str(),
                    node.metrics.len(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (0, "AggregateExec", "mode=Final, gby=[]", 2),
                (1, "CoalescePartitionsExec", "", 0),
                (2, "PoolScan", "table=t, filter=[a = 'x: y', b IN (1, 2)]", 1),
            ]
        );
        assert_eq!(
            nodes[2].metrics[0],
            ("output_rows".to_owned(), "1.23 K".to_owned())
        );
    }

    #[test]
    fn line_breaks_in_texts_belong_to_the_node() {
        let nodes = parse("Filter: t.s = Utf8(\"a\n b\")\n  TableScan: t").unwrap();
        assert_eq!(nodes.len(), 2);
        assert_eq!(nodes[0].fields, "t.s = Utf8(\"a b\")");
    }

    #[test]
    fn other_texts_are_no_plans() {
        assert_eq!(parse("┌────┐\n│ A  │"), None);
        assert_eq!(parse("[\n  {\n"), None);
    }

    #[test]
    fn lists_are_split_outside_of_brackets() {
        let parts: Vec<_> = split("a=1, b=[x, y(1, 2)], , c").collect();
        assert_eq!(parts, ["a=1", "b=[x, y(1, 2)]", "c"]);
    }
}
