//! Users of a server: a file of lines `name:password`, as memcached's `-Y` reads.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::MemcachedError;
use crate::error::Result;

/// Most users in a file, as in memcached.
const MAX_USERS: usize = 8;

/// Names with passwords.
#[derive(Debug)]
pub(crate) struct Users(HashMap<Vec<u8>, Vec<u8>>);

impl Users {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Users> {
        let bad = |reason: String| MemcachedError::File {
            path: path.to_path_buf(),
            reason,
        };
        let text = fs::read(path).map_err(|error| bad(error.to_string()))?;
        let mut users = HashMap::new();
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                return Err(bad(format!("line {}: expected `name:password`", number + 1)));
            };
            users.insert(line[..colon].to_vec(), line[colon + 1..].to_vec());
        }
        match users.len() {
            0 => Err(bad("no users".to_owned())),
            1..=MAX_USERS => Ok(Users(users)),
            count => Err(bad(format!("{count} users, at most {MAX_USERS} are supported"))),
        }
    }

    /// Returns true if a token, `name password`, is that of a user. Takes as long for any password of that
    /// length.
    pub(crate) fn knows(&self, token: &[u8]) -> bool {
        let Some(space) = token.iter().position(|byte| *byte == b' ') else {
            return false;
        };
        let (name, password) = (&token[..space], &token[space + 1..]);
        self.0.get(name).is_some_and(|known| {
            let differences = known.iter().zip(password).fold(0, |sum, (a, b)| sum | a ^ b);
            known.len() == password.len() && differences == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_lines_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            fs::write(file.path(), text).unwrap();
            Users::read(file.path())
        };
        let users = read("ann:secret\r\nbob:a:b\n\n").unwrap();
        assert!(users.knows(b"ann secret") && users.knows(b"bob a:b"));
        for unknown in [&b"ann"[..], b"ann secre", b"ann secrets", b"eve secret", b""] {
            assert!(!users.knows(unknown));
        }
        let error = read("ann:secret\nbob\n").unwrap_err().to_string();
        assert!(error.ends_with("line 2: expected `name:password`"), "{error}");
        assert!(read("").is_err());
    }
}
