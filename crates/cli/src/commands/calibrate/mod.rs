//! `calibrate`: measures a medium and DRAM, and keeps the profile for the pools on that medium.

mod report;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use halocline_calibrate::{CalibrateError, CalibrateOptions, CalibrateTarget};
use halocline_emulator::Resemblance;
use halocline_media::Profile;
use halocline_terminal::interrupt::{self, Guard};
use halocline_terminal::{CliError, progress};
use serde_json::json;

use crate::args::CalibrateArgs;

pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<(), CliError> {
    let file = file(args);
    if let Some(file) = &file {
        check_writable(file)?;
    }
    let profile = measure(args)?;
    if let Some(file) = &file {
        profile
            .write(file)
            .map_err(|error| CliError::failed(error.to_string()))?;
    }
    let mut out = io::stdout();
    if args.json {
        let resembles = |figures| Resemblance::find(figures, &profile.dram);
        let all = json!({
            "file": file.as_ref().map(|file| file.display().to_string()),
            "profile": profile,
            "lambda": {
                "warm": profile.warm.lambda(),
                "cold": profile.cold.as_ref().map(|cold| cold.lambda()),
                "dram": profile.dram.lambda(),
            },
            "resembles": {
                "warm": resembles(&profile.warm),
                "cold": profile.cold.as_ref().map(resembles),
            },
        });
        return Ok(writeln!(out, "{all}")?);
    }
    report::print(&profile, &mut out)?;
    match &file {
        Some(file) => writeln!(out, "profile: {}", file.display())?,
        None => writeln!(out, "no profile was written; --out FILE writes one")?,
    }
    Ok(())
}

fn measure(args: &CalibrateArgs) -> Result<Profile, CliError> {
    let mut options = if args.thorough {
        CalibrateOptions::thorough()
    } else {
        CalibrateOptions::default()
    };
    options.bytes = args.size;
    options.threads = args.threads.unwrap_or(options.threads);
    let guard = Guard::new();
    // A system call on a slow device may take long, and nothing is left whenever the process ends.
    interrupt::exit_when_late();
    let bar = progress::steps(0);
    let measured = halocline_calibrate::calibrate(&args.target, &options, guard.requested(), &mut |step| {
        bar.set_length(step.total as u64);
        bar.set_position(step.done as u64);
        bar.set_message(step.name.to_owned());
    });
    bar.finish_and_clear();
    let profile = measured.map_err(|error| match error {
        CalibrateError::Cancelled => CliError::Interrupted,
        CalibrateError::NoSpace { .. } | CalibrateError::NoMemory { .. } => {
            CliError::with_hint(error.to_string(), "`--size 64M` measures over 64 MiB")
        }
        other => CliError::failed(other.to_string()),
    })?;
    guard.end()?;
    Ok(profile)
}

/// Returns the file that the profile goes to, if any.
fn file(args: &CalibrateArgs) -> Option<PathBuf> {
    match (&args.out, &args.target) {
        (Some(file), _) => Some(file.clone()),
        (None, CalibrateTarget::Directory(directory)) => Some(directory.join(Profile::FILE_NAME)),
        (None, _) => None,
    }
}

/// Fails before the measurement where the profile cannot be written after it: its directory is missing, or
/// it is itself a directory.
fn check_writable(file: &Path) -> Result<(), CliError> {
    let directory = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    // A missing or wrong DIR is reported by the calibration.
    if file.file_name().is_some_and(|name| name == Profile::FILE_NAME) && !file.is_dir() {
        return Ok(());
    }
    if file.is_dir() || !fs::metadata(directory).is_ok_and(|found| found.is_dir()) {
        return Err(CliError::with_hint(
            format!("cannot write the profile {}", file.display()),
            "--out takes the path of a file in an existing directory",
        ));
    }
    Ok(())
}
