//! Profile files: written whole, checked when read, found beside a pool or above it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Profile, ProfileError};

impl Profile {
    /// Reads a profile and checks that it is consistent.
    ///
    /// # Errors
    /// [`ProfileError::Unreadable`], [`ProfileError::NotAProfile`]; [`ProfileError::Inconsistent`] names the
    /// first field that makes no sense.
    pub fn read(path: &Path) -> Result<Profile, ProfileError> {
        let text = fs::read(path).map_err(|source| ProfileError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let not_a_profile = |source| ProfileError::NotAProfile {
            path: path.to_owned(),
            source,
        };
        // The version comes first: the fields of another one are unknown.
        let object: serde_json::Value = serde_json::from_slice(&text).map_err(not_a_profile)?;
        let version = object.get("version").and_then(serde_json::Value::as_u64);
        if let Some(version) = version.filter(|version| *version != u64::from(Profile::VERSION)) {
            return Err(ProfileError::Inconsistent {
                path: path.to_owned(),
                field: "version".to_owned(),
                defect: format!("is {version}, and this program knows {}", Profile::VERSION),
            });
        }
        let profile: Profile = serde_json::from_slice(&text).map_err(not_a_profile)?;
        profile.checked(path)?;
        Ok(profile)
    }

    /// Checks the profile and writes it to `path`, replacing a file of that name in one step.
    ///
    /// # Errors
    /// [`ProfileError::Inconsistent`], [`ProfileError::Unwritable`]; the old file remains.
    pub fn write(&self, path: &Path) -> Result<(), ProfileError> {
        self.checked(path)?;
        let unwritable = |source| ProfileError::Unwritable {
            path: path.to_owned(),
            source,
        };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| unwritable(error.into()))?;
        text.push('\n');
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(
            ".{}-{:016x}",
            std::process::id(),
            crate::boot::random_word()
        ));
        let beside = path.with_file_name(name);
        let written = fs::File::create_new(&beside)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written.map_err(unwritable)
    }

    /// Finds and reads the profile of the medium that `pool` is on: the one beside it, or else in the nearest
    /// directory above it on the same file system. Returns its path too, or `None` if there is no profile.
    ///
    /// # Errors
    /// As [`read`](Self::read), if there is a profile. [`ProfileError::Unreadable`] if the pool's directory
    /// cannot be examined.
    pub fn for_path(pool: &Path) -> Result<Option<(PathBuf, Profile)>, ProfileError> {
        let unreadable = |source| ProfileError::Unreadable {
            path: pool.to_owned(),
            source,
        };
        let pool = std::path::absolute(pool).map_err(unreadable)?;
        // A pool behind a symbolic link is on the file system of its target.
        let pool = fs::canonicalize(&pool).unwrap_or(pool);
        let mut device = None;
        for directory in pool.ancestors().skip(1) {
            let found = fs::metadata(directory).map_err(unreadable)?.dev();
            if *device.get_or_insert(found) != found {
                break;
            }
            let path = directory.join(Profile::FILE_NAME);
            match fs::symlink_metadata(&path) {
                Ok(_) => return Profile::read(&path).map(|profile| Some((path, profile))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unreadable(error)),
            }
        }
        Ok(None)
    }

    fn checked(&self, path: &Path) -> Result<(), ProfileError> {
        self.check().map_err(|found| ProfileError::Inconsistent {
            path: path.to_owned(),
            field: found.field,
            defect: found.defect,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::check::tests::profile;

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(Profile::FILE_NAME);
        for profile in [
            profile(),
            Profile {
                cold: None,
                ..profile()
            },
        ] {
            profile.write(&path).unwrap();
            assert_eq!(Profile::read(&path).unwrap(), profile);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Files of version 1 stay readable. The file is never written by a test.
    #[test]
    fn the_frozen_file_of_version_1_is_read() {
        let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles/version-1.json");
        assert_eq!(Profile::read(&frozen).unwrap(), profile());
        let mut written = serde_json::to_string_pretty(&profile()).unwrap();
        written.push('\n');
        assert_eq!(written, fs::read_to_string(&frozen).unwrap());
    }

    #[test]
    fn what_is_no_consistent_profile_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.json");
        let message = |text: &str| {
            fs::write(&path, text).unwrap();
            let error = Profile::read(&path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
            error
        };
        let good = serde_json::to_string(&profile()).unwrap();
        for text in ["", "{", "[]", "{\"version\":1}", &good.replace("cpus", "cores")] {
            assert!(message(text).contains("is not a profile"), "{text}");
        }
        let error = message("{\"version\":9,\"new\":0}");
        assert!(
            error.contains("version is 9, and this program knows 1"),
            "{error}"
        );
        let error = message(&good.replace("\"peak_read\":102000000000.0", "\"peak_read\":-1.5"));
        assert!(error.contains("dram.peak_read is -1.5"), "{error}");
        let missing = Profile::read(&folder.path().join("none")).unwrap_err();
        assert!(matches!(missing, ProfileError::Unreadable { .. }), "{missing}");

        let mut bad = profile();
        bad.warm.read.clear();
        assert!(matches!(bad.write(&path), Err(ProfileError::Inconsistent { .. })));
        let error = profile().write(&folder.path().join("no/dir.json")).unwrap_err();
        assert!(matches!(error, ProfileError::Unwritable { .. }), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_nearest_profile_on_the_file_system_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let pool = inner.join("x.pool");
        // A profile above the temporary directory, if there is one, is not ours.
        let found = |pool: &Path| {
            let found = Profile::for_path(pool).unwrap().map(|found| found.0);
            found.filter(|path| path.starts_with(folder.path().canonicalize().unwrap()))
        };
        assert_eq!(found(&pool), None);
        let above = folder.path().canonicalize().unwrap().join(Profile::FILE_NAME);
        profile().write(&above).unwrap();
        assert_eq!(found(&pool), Some(above.clone()));
        fs::write(&pool, "").unwrap();
        let beside = inner.canonicalize().unwrap().join(Profile::FILE_NAME);
        profile().write(&beside).unwrap();
        assert_eq!(found(&pool), Some(beside.clone()));
        let link = folder.path().join("link.pool");
        std::os::unix::fs::symlink(&pool, &link).unwrap();
        assert_eq!(found(&link), Some(beside.clone()));
        assert_eq!(Profile::for_path(&pool).unwrap().unwrap().1, profile());
        fs::write(&beside, "{}").unwrap();
        let error = Profile::for_path(&pool).unwrap_err();
        assert!(error.to_string().contains("is not a profile"), "{error}");
    }

    #[test]
    fn a_profile_of_another_file_system_is_not_used() {
        // /proc is a file system of its own; the root above it is another one.
        let found = Profile::for_path(Path::new("/proc/self/pool")).unwrap();
        assert!(found.is_none(), "{found:?}");
    }
}
