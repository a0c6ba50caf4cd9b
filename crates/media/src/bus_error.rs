//! An orderly exit when a mapped file loses the bytes that are being read.
//!
//! A process that touches a page past the end of a mapped file, or one that the disk cannot read, gets
//! SIGBUS, which kills it without a message. [`exit_on_bus_error`] makes the process explain why it ends. It
//! cannot go on, because the failed access cannot be completed.
//!
//! Invariants:
//! - The handler calls async-signal-safe functions only, takes no lock and allocates nothing. It reads a
//!   table of atomics in which every [`FileMedium`](crate::FileMedium) registers its addresses and its path.
//! - A medium leaves the table before its addresses are unmapped, so an entry that contains the faulting
//!   address belongs to the medium that is being read.
//! - If the table is full, a medium is not registered, and a fault in it has its default effect.
#![allow(unsafe_code, reason = "handles a signal")]

use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering};

/// Capacity of the table of mapped files.
const FILES: usize = 64;
/// Maximum length of a stored path, in bytes; of a longer path the end is kept.
const PATH_BYTES: usize = 1024;
/// Start addresses of free entries and of entries being filled; no mapping starts at either.
const FREE: usize = 0;
const FILLING: usize = 1;
/// Bytes of a message besides the path, which it contains twice.
const TEXT_BYTES: usize = 256;

/// A mapped file in the table.
struct FileTableEntry {
    /// The first address of the mapping, or [`FREE`] or [`FILLING`]; stored last.
    start: AtomicUsize,
    /// The address past the end of the mapping.
    end: AtomicUsize,
    path_len: AtomicUsize,
    path: [AtomicU8; PATH_BYTES],
}

static TABLE: [FileTableEntry; FILES] = [const {
    FileTableEntry {
        start: AtomicUsize::new(FREE),
        end: AtomicUsize::new(0),
        path_len: AtomicUsize::new(0),
        path: [const { AtomicU8::new(0) }; PATH_BYTES],
    }
}; FILES];

/// The exit code of the process.
static EXIT_CODE: AtomicI32 = AtomicI32::new(1);

/// The previous signal action; set once our handler is installed.
static PREVIOUS_ACTION: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs a SIGBUS handler for accesses to a lost part of a mapped file
/// ([`FileMedium`](crate::FileMedium)), because the file was truncated or its disk or memory failed. The
/// process then prints a message with the name of the file to stderr and exits with `exit_code` instead of
/// being killed by SIGBUS. Any other SIGBUS has its previous effect.
///
/// The handler belongs to the whole process, so only a program should install it, never a library; no other
/// function of this workspace does. It runs no destructors and flushes no buffers; pools are in the state of
/// any process death. A second call only changes the exit code.
///
/// # Errors
/// The system rejects the handler.
pub fn exit_on_bus_error(exit_code: u8) -> io::Result<()> {
    EXIT_CODE.store(exit_code.into(), Ordering::Relaxed);
    // SAFETY: a `sigaction` of zeros is a valid value: no flags, an empty mask.
    let mut before: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: changes nothing, and `before` is valid for a write.
    let asked = unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    // The handler reads it as soon as it is installed.
    if PREVIOUS_ACTION.set(before).is_err() {
        return Ok(());
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
    action.sa_sigaction = handler as usize;
    // Use the alternate stack, where the thread has one: little of its own stack may be left at the fault.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is valid, and the handler keeps to what a handler may do.
    let installed = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
    match installed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A file's entry in the table, freed on drop.
#[derive(Debug)]
pub(crate) struct FileTableSlot(Option<usize>);

impl FileTableSlot {
    /// Registers the file that is mapped at `start`. Does nothing if the table is full.
    pub(crate) fn enter(start: usize, len: usize, path: &Path) -> Self {
        let free = TABLE.iter().position(|entry| {
            let claimed = entry
                .start
                .compare_exchange(FREE, FILLING, Ordering::Acquire, Ordering::Relaxed);
            claimed.is_ok()
        });
        if let Some(entry) = free.map(|at| &TABLE[at]) {
            let path = path.as_os_str().as_bytes();
            let kept = &path[path.len().saturating_sub(PATH_BYTES)..];
            for (to, from) in entry.path.iter().zip(kept) {
                to.store(*from, Ordering::Relaxed);
            }
            entry.path_len.store(kept.len(), Ordering::Relaxed);
            entry.end.store(start + len, Ordering::Relaxed);
            // Last, so that a handler that sees the address sees the whole entry.
            entry.start.store(start, Ordering::Release);
        }
        Self(free)
    }
}

impl Drop for FileTableSlot {
    fn drop(&mut self) {
        if let Some(at) = self.0 {
            TABLE[at].start.store(FREE, Ordering::Release);
        }
    }
}

/// Returns the entry of the file that is mapped at an address.
fn file_at(address: usize) -> Option<&'static FileTableEntry> {
    TABLE.iter().find(|entry| {
        let start = entry.start.load(Ordering::Acquire);
        start > FILLING && (start..entry.end.load(Ordering::Relaxed)).contains(&address)
    })
}

extern "C" fn on_bus_error(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the system hands a valid one to a handler that was installed with SA_SIGINFO.
    let info = unsafe { &*info };
    // Codes above zero come from the kernel: an access caused the signal, which carries its address.
    let of_access = info.si_code > 0;
    if of_access {
        // SAFETY: SIGBUS of an access has an address.
        let address = unsafe { info.si_addr() } as usize;
        if let Some(entry) = file_at(address) {
            let mut message = FaultMessage::default();
            message.about(entry, info.si_code);
            // SAFETY: async-signal-safe; the bytes are the message's own.
            unsafe { libc::write(libc::STDERR_FILENO, message.bytes.as_ptr().cast(), message.len) };
            // SAFETY: async-signal-safe.
            unsafe { libc::_exit(EXIT_CODE.load(Ordering::Relaxed)) };
        }
    }
    if let Some(before) = PREVIOUS_ACTION.get() {
        // SAFETY: async-signal-safe; the value is the one that the system gave.
        unsafe { libc::sigaction(libc::SIGBUS, before, ptr::null_mut()) };
    }
    if !of_access {
        // A failed access repeats on return; a signal that was sent must be raised again for the previous
        // handler. SAFETY: async-signal-safe.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}

/// A message for stderr that is assembled without allocating.
struct FaultMessage {
    bytes: [u8; TEXT_BYTES + 2 * PATH_BYTES],
    len: usize,
}

impl Default for FaultMessage {
    fn default() -> Self {
        Self {
            bytes: [0; TEXT_BYTES + 2 * PATH_BYTES],
            len: 0,
        }
    }
}

impl FaultMessage {
    fn about(&mut self, file: &FileTableEntry, code: libc::c_int) {
        self.push(b"error: ");
        self.push_path(file);
        self.push(match code {
            libc::BUS_MCEERR_AR | libc::BUS_MCEERR_AO => {
                b" lies on memory that has failed (an uncorrectable error)".as_slice()
            }
            _ => b" was truncated, or its disk reported an error, while it was open".as_slice(),
        });
        self.push(b"\nhint: restore it from a copy, then run `halocline check ");
        self.push_path(file);
        self.push(b"`\n");
    }

    fn push_path(&mut self, file: &FileTableEntry) {
        let len = file.path_len.load(Ordering::Relaxed).min(PATH_BYTES);
        for byte in &file.path[..len] {
            self.push(&[byte.load(Ordering::Relaxed)]);
        }
    }

    /// Appends the bytes that fit.
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(to) = self.bytes.get_mut(self.len) {
                *to = *byte;
                self.len += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    fn message_at(address: usize) -> Option<String> {
        file_at(address).map(|entry| {
            let mut message = FaultMessage::default();
            message.about(entry, libc::BUS_ADRERR);
            String::from_utf8_lossy(&message.bytes[..message.len]).into_owned()
        })
    }

    /// Addresses that no mapping has.
    const UNMAPPED_ADDRESS: usize = usize::MAX / 2;
    /// Tests that fill the process-wide table exclude each other.
    static TABLE_TESTS: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        TABLE_TESTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn a_file_is_known_by_its_addresses_while_it_is_entered() {
        let _alone = alone();
        let start = UNMAPPED_ADDRESS;
        let known = FileTableSlot::enter(start, 4096, Path::new("/data/shop.pool"));
        for outside in [start - 1, start + 4096] {
            assert_eq!(message_at(outside), None);
        }
        assert_eq!(
            message_at(start + 4095).unwrap(),
            "error: /data/shop.pool was truncated, or its disk reported an error, while it was open\n\
             hint: restore it from a copy, then run `halocline check /data/shop.pool`\n"
        );
        drop(known);
        assert_eq!(message_at(start), None);
    }

    #[test]
    fn of_a_long_path_the_end_is_kept() {
        let _alone = alone();
        let start = UNMAPPED_ADDRESS;
        let long = format!("/{}/shop.pool", "x".repeat(5000));
        let _known = FileTableSlot::enter(start, 4096, Path::new(&long));
        let message = message_at(start).unwrap();
        assert!(message.ends_with("/shop.pool`\n"), "{message}");
        assert!(message.len() <= TEXT_BYTES + 2 * PATH_BYTES);
    }

    #[test]
    fn more_files_than_the_table_has_room_for_are_left_out() {
        let _alone = alone();
        let start = UNMAPPED_ADDRESS;
        let known: Vec<_> = (0..=FILES)
            .map(|at| FileTableSlot::enter(start + at * 4096, 4096, Path::new("a")))
            .collect();
        assert!(known.last().unwrap().0.is_none());
        assert_eq!(message_at(start + FILES * 4096), None);
        drop(known);
        let again = FileTableSlot::enter(start, 4096, Path::new("b"));
        assert!(again.0.is_some());
    }
}
