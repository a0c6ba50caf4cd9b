//! Variants: the cross product of the lists in the settings.

use std::fmt;

use halocline_engine::TableEncoding;

use crate::{Backing, Config, Settings, config};

/// Of what a pool is made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PoolSpec {
    pub(super) scale_factor: f64,
    pub(super) encoding: TableEncoding,
    /// The column by which lineorder is sorted.
    pub(super) sort: Option<String>,
}

impl PoolSpec {
    /// Returns the file name of the pool.
    pub(super) fn file(&self) -> String {
        let sort = self.sort.as_ref().map(|column| format!("-by-{column}"));
        format!("{}{}.pool", self.encoding, sort.unwrap_or_default())
    }

    fn order(&self) -> &str {
        self.sort.as_deref().unwrap_or("as generated")
    }

    pub(super) fn config(&self) -> Config {
        config! {
            "scale_factor": self.scale_factor, "encoding": self.encoding.name(), "sort": self.sort,
        }
    }
}

impl fmt::Display for PoolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (encoding, sf, order) = (self.encoding, self.scale_factor, self.order());
        write!(f, "SF {sf}, {encoding}, {order}")
    }
}

/// One of what is compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variant {
    pub(super) stored: PoolSpec,
    pub(super) backing: Backing,
    /// The star join, or DataFusion's.
    pub(super) star: bool,
    pub(super) threads: usize,
}

impl Variant {
    /// Returns a label made of the properties in which the variants differ.
    pub(super) fn label(&self, among: &[Variant]) -> String {
        let differ = |same: fn(&Variant, &Variant) -> bool| !among.iter().all(|other| same(self, other));
        let mut parts = vec![self.backing.to_string()];
        if differ(|a, b| a.stored.encoding == b.stored.encoding) {
            parts.push(self.stored.encoding.to_string());
        }
        if differ(|a, b| a.stored.sort == b.stored.sort) {
            parts.push(self.stored.order().to_owned());
        }
        if differ(|a, b| a.star == b.star) {
            parts.push(if self.star { "star join" } else { "DataFusion" }.to_owned());
        }
        if differ(|a, b| a.threads == b.threads) {
            let many = if self.threads == 1 { "" } else { "s" };
            parts.push(format!("{} thread{many}", self.threads));
        }
        if differ(|a, b| a.stored.scale_factor == b.stored.scale_factor) {
            parts.push(format!("SF {}", self.stored.scale_factor));
        }
        parts.join(", ")
    }

    /// Returns the name of the system in the results.
    pub(super) fn system(&self) -> &'static str {
        if self.star {
            "halocline"
        } else {
            "datafusion over the pool"
        }
    }
}

/// Returns all variants that the settings request. The largest scale factor and all threads come first.
pub(super) fn all(settings: &Settings) -> Vec<Variant> {
    let asked = &settings.ssb;
    let largest = settings
        .scale_factor
        .unwrap_or(if settings.quick { 0.01 } else { 1.0 });
    let threads = settings.threads();
    let (mut factors, mut threads) = (vec![largest], vec![threads]);
    if asked.scaling {
        factors.push(largest / 10.0);
        if threads != [1] {
            threads.push(1);
        }
    }
    let encodings = or(&asked.encodings, TableEncoding::Chosen);
    let (sorts, stars) = (or(&asked.sorts, None), or(&asked.star, true));
    let mut variants = vec![];
    for &scale_factor in &factors {
        for &threads in &threads {
            for sort in &sorts {
                for &star in &stars {
                    for &encoding in &encodings {
                        for &backing in settings.backings(&[Backing::PageCache]) {
                            let stored = PoolSpec {
                                scale_factor,
                                encoding,
                                sort: sort.clone(),
                            };
                            let variant = Variant {
                                stored,
                                backing,
                                star,
                                threads,
                            };
                            if !variants.contains(&variant) {
                                variants.push(variant);
                            }
                        }
                    }
                }
            }
        }
    }
    variants
}

/// Returns the requested values, or the defaults if there are none.
fn or<T: Clone>(asked: &[T], usual: T) -> Vec<T> {
    match asked {
        [] => vec![usual],
        asked => asked.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_crossed_and_labels_tell_apart() {
        let mut settings = Settings {
            scale_factor: Some(10.0),
            threads: Some(2),
            on: vec![Backing::Dram, Backing::Emulated],
            ..Settings::default()
        };
        settings.ssb.encodings = vec![TableEncoding::Chosen, TableEncoding::Plain];
        let variants = all(&settings);
        let labels: Vec<String> = variants.iter().map(|variant| variant.label(&variants)).collect();
        assert_eq!(
            labels,
            [
                "dram, chosen",
                "emulated, chosen",
                "dram, plain",
                "emulated, plain"
            ]
        );
        settings.ssb.scaling = true;
        settings.on.clear();
        settings.ssb.encodings.clear();
        let variants = all(&settings);
        let labels: Vec<String> = variants.iter().map(|variant| variant.label(&variants)).collect();
        assert_eq!(labels[0], "page-cache, 2 threads, SF 10");
        assert_eq!(labels[3], "page-cache, 1 thread, SF 1");
        assert_eq!(all(&Settings::default())[0].label(&[]), "page-cache");
    }
}
