//! Runs an experiment and keeps what it says.

use std::fs;
use std::path::{Path, PathBuf};

use halocline_bench::{Backing, DataKind, RecordingFile, Reporter, Settings, Tiers, experiments};
use serde_json::Value;
use tempfile::TempDir;

/// Output of an experiment: text, values and the directory of its figures.
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) values: Vec<Value>,
    pub(crate) figures: TempDir,
}

/// A few thousand rows, two repetitions, an emulated medium that waits for nothing and needs no measured
/// host.
pub(crate) fn tiny() -> Settings {
    Settings {
        quick: true,
        rows: Some(3_000),
        seed: 42,
        threads: Some(2),
        repetitions: Some(1),
        tiers: Tiers {
            data: Some(DataKind::Uniform),
            medium: Some(
                "emulated:optane:virtual:absolute:cache=1"
                    .parse()
                    .expect("a medium"),
            ),
            ..Tiers::default()
        },
        ..Settings::default()
    }
}

pub(crate) fn on(backings: &[Backing]) -> Settings {
    Settings {
        on: backings.to_vec(),
        ..tiny()
    }
}

pub(crate) fn number(value: &Value) -> f64 {
    let number = value["value"].as_f64();
    number.unwrap_or_else(|| panic!("no number in {value}"))
}

pub(crate) fn run(name: &str, settings: Settings) -> Outcome {
    let figures = tempfile::tempdir().unwrap();
    let experiment = experiments()
        .iter()
        .find(|experiment| experiment.name == name)
        .expect("it is registered");
    let mut out = vec![];
    let recordings = tempfile::tempdir().unwrap();
    let recording = recordings.path().join("values.jsonl");
    let file = RecordingFile::append_to(&recording).unwrap();
    let mut reporter = Reporter::new(experiment.name, &mut out).with_json(file);
    (experiment.run)(&settings, &mut reporter).expect("the experiment runs");
    reporter
        .finish(experiment.views, experiment.charts, Some(figures.path()))
        .unwrap();
    let json = std::fs::read_to_string(&recording).unwrap();
    Outcome {
        text: String::from_utf8(out).unwrap(),
        values: json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        figures,
    }
}

impl Outcome {
    /// The values of a metric.
    pub(crate) fn values_of<'a>(&'a self, metric: &'a str) -> impl Iterator<Item = &'a Value> {
        self.values.iter().filter(move |value| value["metric"] == metric)
    }

    /// Every value says what it takes to measure it again.
    pub(crate) fn insist_on_configurations(&self) {
        assert!(!self.values.is_empty());
        let names = [
            "rows",
            "dims",
            "seed",
            "theta",
            "medium",
            "cache_model_bytes",
            "profile",
            "clock",
            "relative",
            "own_cost_ns",
            "cpu",
        ];
        for value in &self.values {
            for name in names {
                assert!(!value["config"][name].is_null(), "no {name} in {value}");
            }
        }
    }

    /// The figures, each of which is well-formed and has the words.
    pub(crate) fn insist_on_figures(&self, names: &[&str], words: &[&str]) {
        let mut found: Vec<PathBuf> = fs::read_dir(self.figures.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        found.sort_by_key(|path| path.file_stem().map(ToOwned::to_owned));
        let stems = found
            .iter()
            .map(|path| path.file_stem().unwrap().to_str().unwrap());
        let stems: Vec<&str> = stems.collect();
        assert_eq!(stems, names, "{stems:?}");
        for path in found {
            insist_on_svg(&path, words);
        }
    }
}

/// Every element of the file is closed in turn.
fn insist_on_svg(path: &Path, words: &[&str]) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.starts_with("<svg"), "{}", path.display());
    for word in words {
        assert!(text.contains(word), "`{word}` is not in {}", path.display());
    }
    let mut open = vec![];
    for tag in text.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{}", path.display());
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?} stay open in {}", path.display());
}
