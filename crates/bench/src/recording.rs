//! Recordings: files of measured values as JSON Lines, compressed with zstd where the name ends in `.zst`.
//!
//! Invariant: a run adds one whole frame to a compressed file, or nothing if it fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::BenchError;
use crate::report::Measurement;

/// The level of compression: a recording is written once, and kept.
const LEVEL: i32 = 19;

/// A file that the measured values of a run are appended to.
#[derive(Debug)]
pub struct RecordingFile {
    file: File,
    /// The lines of a compressed file, which are written when the run ends.
    frame: Option<Vec<u8>>,
}

impl RecordingFile {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// The file cannot be opened for writing.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: OpenOptions::new().create(true).append(true).open(path)?,
            frame: is_compressed(path).then(Vec::new),
        })
    }

    pub(crate) fn add(&mut self, value: &Measurement) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        match &mut self.frame {
            Some(frame) => frame.write_all(&line),
            None => self.file.write_all(&line),
        }
    }

    /// Writes the lines of a compressed file.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match &self.frame {
            Some(frame) => self.file.write_all(&zstd::encode_all(frame.as_slice(), LEVEL)?),
            None => Ok(()),
        }
    }
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// Reads the values of all recordings in a directory, `*.jsonl` and `*.jsonl.zst`, in the order of their
/// names.
pub(crate) fn read_all(directory: &Path) -> Result<Vec<Measurement>, BenchError> {
    let failed = |error: io::Error| unreadable(directory, &error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".jsonl") || name.ends_with(".jsonl.zst") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let mut values = Vec::new();
    for path in paths {
        values.extend(read(&path)?);
    }
    Ok(values)
}

fn read(path: &Path) -> Result<Vec<Measurement>, BenchError> {
    let text = text(path).map_err(|error| unreadable(path, &error))?;
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let place = format!("{}, line {}", path.display(), number + 1);
            BenchError::Setup(format!(
                "{place} is not a measured value as --json writes it: {error}"
            ))
        })
    };
    text.lines().enumerate().map(line).collect()
}

fn text(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    // The decoder reports an empty file as an incomplete frame.
    if is_compressed(path) && file.metadata()?.len() > 0 {
        io::read_to_string(zstd::Decoder::new(file)?)
    } else {
        io::read_to_string(file)
    }
}

pub(crate) fn unreadable(path: &Path, error: &io::Error) -> BenchError {
    BenchError::Setup(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(value: f64) -> Measurement {
        Measurement {
            experiment: "x".into(),
            system: "ours".into(),
            config: crate::Config::new(),
            metric: "time".into(),
            value,
            unit: "s".into(),
        }
    }

    #[test]
    fn runs_are_appended_plain_and_compressed() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.jsonl", "b.jsonl.zst"] {
            for run in [[1.0, 2.0], [3.0, 4.0]] {
                let mut file = RecordingFile::append_to(&directory.path().join(name)).unwrap();
                for value in run {
                    file.add(&measured(value)).unwrap();
                }
                file.finish().unwrap();
            }
        }
        let values = read_all(directory.path()).unwrap();
        let values: Vec<f64> = values.iter().map(|value| value.value).collect();
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0].repeat(2));
    }

    #[test]
    fn a_compressed_file_has_nothing_of_a_run_that_failed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl.zst");
        let mut file = RecordingFile::append_to(&path).unwrap();
        file.add(&measured(1.0)).unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert!(read_all(directory.path()).unwrap().is_empty());
    }

    #[test]
    fn a_wrong_line_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let line = serde_json::to_string(&measured(1.0)).unwrap();
        fs::write(directory.path().join("a.jsonl"), format!("{line}\n{{}}\n")).unwrap();
        let error = read_all(directory.path()).unwrap_err().to_string();
        assert!(
            error.contains("a.jsonl, line 2 is not a measured value"),
            "{error}"
        );
        assert!(read_all(&directory.path().join("missing")).is_err());
    }
}
