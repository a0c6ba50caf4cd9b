//! The description of the chosen indexes, and of what each query gains by them.

use std::collections::{BTreeMap, BTreeSet};

use halocline_catalog::Catalog;
use halocline_sql::size;

use super::advice::Candidate;
use super::costs::{IndexForecast, TableWorkload};
use super::names::{create_index, drop_index, index_name};
use super::reasons::{Alternatives, column_names, no_index_pays};
use super::result::{IndexSetAdvice, ProposedIndex, QueryForecast, UnusedIndex};
use super::workload::WorkloadQuery;
use crate::Placement;

const SECOND: f64 = 1e9;

/// A choice, to be described.
pub(super) struct Outcome<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) workload: &'a [WorkloadQuery],
    pub(super) tables: &'a [TableWorkload],
    pub(super) forecasts: &'a [Vec<IndexForecast>],
    pub(super) chosen: &'a [Candidate],
    pub(super) space: u64,
}

impl Outcome<'_> {
    /// Describes the choice; the indexes get `dram` bytes for copies.
    pub(super) fn describe(&self, dram: Option<u64>) -> IndexSetAdvice {
        let mut proposed = self.proposals(dram);
        let mut queries: Vec<QueryForecast> = self.workload.iter().map(unread).collect();
        let mut used: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
        let mut serves: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.chosen.len()];
        for (number, table) in self.tables.iter().enumerate() {
            for (at, scan) in table.scans.iter().enumerate() {
                let query = &mut queries[scan.scan.query];
                let existing = scan.now.1.map(|index| table.open.indexes[index].name.as_str());
                let best = self.best(number, at).filter(|(_, cost)| *cost < scan.now.0);
                query.before += scan.now.0 / SECOND;
                query.after += best.map_or(scan.now.0, |(_, cost)| cost) / SECOND;
                if let Some(name) = existing {
                    let uses = used.entry(name).or_default();
                    (uses.0, uses.1) = (true, uses.1 || best.is_none());
                }
                match best {
                    Some((chosen, cost)) => {
                        serves[chosen].insert(scan.scan.query);
                        proposed[chosen].gain += (scan.now.0 - cost) * scan.weight / SECOND;
                        query.indexes.push(proposed[chosen].name.clone());
                    }
                    None => {
                        let of = Alternatives {
                            table,
                            forecasts: &self.forecasts[number],
                            space: self.space,
                        };
                        query.reasons.push(no_index_pays(scan, at, &of));
                    }
                }
            }
        }
        for query in &mut queries {
            if query.indexes.is_empty() && query.reasons.is_empty() {
                query.reasons.push("reads no table that can have an index".into());
            }
            query.indexes.dedup();
            query.reasons.dedup();
        }
        for (index, queries) in proposed.iter_mut().zip(&serves) {
            index.queries = queries.len();
        }
        proposed.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        let total =
            |of: fn(&QueryForecast) -> f64| queries.iter().map(|query| of(query) * query.weight).sum();
        IndexSetAdvice {
            before: total(|query| query.before),
            after: total(|query| query.after),
            unused: self.unused(&used),
            space: self.space,
            proposed,
            queries,
        }
    }

    /// Returns the chosen index that is best for a table reference, and the cost with it.
    fn best(&self, table: usize, scan: usize) -> Option<(usize, f64)> {
        let of = self
            .chosen
            .iter()
            .enumerate()
            .filter_map(|(at, (of_table, number))| {
                let costs = &self.forecasts[*of_table][*number].costs;
                let found = costs.binary_search_by_key(&scan, |(scan, _)| *scan).ok()?;
                (*of_table == table).then_some((at, costs[found].1))
            });
        of.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the chosen indexes without what they gain.
    fn proposals(&self, dram: Option<u64>) -> Vec<ProposedIndex> {
        let mut taken: BTreeSet<String> = self
            .catalog
            .indexes()
            .iter()
            .map(|index| index.name.clone())
            .collect();
        taken.extend(self.catalog.table_names());
        let forecasts = self
            .chosen
            .iter()
            .map(|(table, number)| &self.forecasts[*table][*number]);
        let all: u64 = forecasts.map(|forecast| forecast.bytes).sum();
        let proposal = |(table, number): &Candidate| {
            let (table, forecast) = (&self.tables[*table], &self.forecasts[*table][*number]);
            let columns = column_names(table, &forecast.columns);
            let name = index_name(table.open.table.name(), &columns, &mut taken);
            let mut options = Vec::new();
            if columns.len() > 1 {
                options.push("order = 'given'".to_owned());
            }
            // The placement is picked by the queries once the index is there.
            let placement = match dram {
                Some(dram) => {
                    let share = (dram as f64 * forecast.bytes as f64 / all.max(1) as f64) as u64;
                    options.push("placement = 'auto'".to_owned());
                    options.push(format!(
                        "dram = '{}'",
                        size::exact((share >> 10 << 10).max(1 << 10))
                    ));
                    Placement::Auto
                }
                None => Placement::SlowOnly,
            };
            ProposedIndex {
                statement: create_index(&name, table.open.table.name(), &columns, &options),
                table: table.open.table.name().to_owned(),
                columns: columns.iter().map(|column| (*column).to_owned()).collect(),
                bytes: forecast.bytes,
                queries: 0,
                gain: 0.0,
                placement,
                name,
            }
        };
        self.chosen.iter().map(proposal).collect()
    }

    /// Returns the indexes that no query uses. `used` has those that are used, and whether they still are
    /// beside the proposed ones.
    fn unused(&self, used: &BTreeMap<&str, (bool, bool)>) -> Vec<UnusedIndex> {
        let indexes = self.catalog.indexes().iter().filter_map(|index| {
            let (is_used, is_kept) = used.get(index.name.as_str()).copied().unwrap_or_default();
            let stored = index.index.as_ref().ok()?.stored_bytes();
            (!is_kept).then(|| UnusedIndex {
                statement: drop_index(&index.name),
                name: index.name.clone(),
                bytes: stored,
                is_replaced: is_used,
            })
        });
        indexes.collect()
    }
}

fn unread(query: &WorkloadQuery) -> QueryForecast {
    QueryForecast {
        label: query.label.clone(),
        text: query.text.clone(),
        weight: query.weight,
        before: 0.0,
        after: 0.0,
        indexes: vec![],
        reasons: vec![],
    }
}
