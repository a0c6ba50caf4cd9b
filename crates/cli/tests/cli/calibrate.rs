//! `calibrate`: measured media, their profiles, and what is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use halocline_calibrate::numa_nodes;
use halocline_media::Profile;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Home, assert_error, stdout};

/// A measurement of a few megabytes.
const TINY: [&str; 5] = ["calibrate", ".", "--size", "4M", "--threads=2"];

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_directory_is_measured_and_its_pools_use_the_profile() {
    let home = Home::with_table();
    let before = names(home.directory());
    let text = stdout(&home.ok(&["info", "p"]));
    assert!(text.contains("profile     "), "{text}");

    let text = stdout(&home.ok(&TINY));
    for part in [
        "over 4.0 MiB, up to 2 threads",
        "DRAM",
        "sequential read, 1 thread ",
        "sequential read, 2 threads ",
        "sequential read, peak",
        "sequential write, 1 thread ",
        "sequential write, peak",
        "λ = peak read / peak write",
        "access unit",
        "random read latency",
        "store, flush and fence",
        "32.0 KiB",
        "most like ",
        "profile: ./halocline.profile.json",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let mut after = before.clone();
    after.push(Profile::FILE_NAME.to_owned());
    after.sort();
    assert_eq!(names(home.directory()), after);

    let file = home.path(Profile::FILE_NAME).canonicalize().unwrap();
    let profile = Profile::read(&file).unwrap();
    assert_eq!((profile.bytes, profile.cpus), (4 << 20, 2));
    let text = stdout(&home.ok(&["info", "p"]));
    let line = format!("profile     {} ({})", file.display(), profile.medium_text());
    assert!(text.contains(&line), "{text}");
    let info: Value = serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
    assert_eq!(info["profile"]["file"], file.to_str().unwrap());
    assert_eq!(info["profile"]["figures"]["cpus"], 2);

    // A damaged profile keeps nobody from seeing what is in the pool.
    home.write(Profile::FILE_NAME, "{}");
    let text = stdout(&home.ok(&["info", "p"]));
    assert!(
        text.contains("profile     not read (") && text.contains("table t"),
        "{text}"
    );
    let info: Value = serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
    assert!(
        info["profile_not_read"]
            .as_str()
            .unwrap()
            .contains("is not a profile")
    );
}

#[test]
fn json_is_one_object() {
    let home = Home::new();
    let run = home.ok(&[&TINY[..], &["--json", "--out", "here.json"]].concat());
    let all: Value = serde_json::from_str(&stdout(&run)).unwrap();
    assert_eq!(all["file"], "here.json");
    let written: Value = serde_json::from_str(&fs::read_to_string(home.path("here.json")).unwrap()).unwrap();
    assert_eq!(all["profile"], written);
    let figures = &all["profile"]["dram"];
    let lambda = figures["peak_read"].as_f64().unwrap() / figures["peak_write"].as_f64().unwrap();
    assert!((all["lambda"]["dram"].as_f64().unwrap() - lambda).abs() < 1e-9);
    let known = halocline_emulator::DeviceProfile::names();
    assert!(
        known.contains(&all["resembles"]["warm"]["profile"].as_str().unwrap()),
        "{all}"
    );
    assert_eq!(
        all["resembles"]["cold"].is_null(),
        all["profile"]["cold"].is_null()
    );
    assert_eq!(names(home.directory()), ["here.json"]);
}

#[test]
fn what_cannot_be_measured_is_refused_and_leaves_nothing() {
    let home = Home::new();
    home.write("file", "");
    let refused = |arguments: &[&str], parts: &[&str]| {
        assert_error(&home.fails(1, &[&["calibrate"], arguments].concat()), parts);
        assert_eq!(names(home.directory()), ["file"]);
    };
    refused(&["none"], &["none does not exist"]);
    refused(&["file"], &["file is not a directory"]);
    refused(
        &[".", "--size", "512T"],
        &["bytes free", "stay free", "hint: `--size 64M`"],
    );
    // Nobody creates files there, not even root.
    refused(&["/proc"], &["/proc", "check the path, its permissions"]);
    refused(
        &[".", "--out", "no/profile.json"],
        &["no/profile.json", "--out takes"],
    );
    refused(&[".", "--out", "."], &["--out takes"]);
    let missing = format!("numa:{}", numa_nodes().iter().max().unwrap() + 1);
    refused(&[&missing], &["has no memory; choose one of these nodes: "]);
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_leaves_nothing() {
    let home = Home::new();
    let program = assert_cmd::cargo::cargo_bin("halocline");
    let script = format!("ulimit -f 512; exec {} calibrate . --size 4M", program.display());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(home.directory())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("error: "), "{text}");
    assert!(names(home.directory()).is_empty());
}

#[test]
fn ctrl_c_ends_a_calibration_and_leaves_nothing() {
    let home = Home::new();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
        .args(["calibrate", ".", "--thorough"])
        .current_dir(home.directory())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let files = format!("/proc/{}/fd", child.id());
    let measures = || {
        let links = fs::read_dir(&files).into_iter().flatten().flatten();
        links
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|target| target.to_string_lossy().contains(".halocline-calibrate-"))
    };
    while !measures() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(output.stdout.is_empty());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap().trim(),
        "error: interrupted"
    );
    assert!(names(home.directory()).is_empty());
}

#[test]
fn memory_of_a_node_has_a_profile_only_on_request() {
    let home = Home::new();
    let target = format!("numa:{}", numa_nodes()[0]);
    let run = home.command(&["calibrate", &target, "--size", "4M"]).assert();
    let output = run.get_output();
    if output.status.success() {
        let text = stdout(&run);
        assert!(text.starts_with("medium: memory of NUMA node "), "{text}");
        assert!(
            text.contains("no profile was written; --out FILE writes one"),
            "{text}"
        );
    } else {
        // A container may not allow it.
        assert_error(&run, &["cannot place memory on NUMA node"]);
    }
    assert!(names(home.directory()).is_empty());
}
