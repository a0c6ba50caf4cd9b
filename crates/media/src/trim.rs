//! Return of freed heap memory to the system.
#![allow(unsafe_code, reason = "functions of the C library")]

/// Parameters of `mallopt` in glibc's <malloc.h>.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod parameter {
    pub(super) const TRIM_THRESHOLD: i32 = -1;
    pub(super) const MMAP_THRESHOLD: i32 = -3;
    pub(super) const ARENA_MAX: i32 = -8;
}

/// Sets parameters of glibc's allocator.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set(parameters: &[(i32, i32)]) {
    unsafe extern "C" {
        fn mallopt(parameter: i32, value: i32) -> i32;
    }
    for &(parameter, value) in parameters {
        // SAFETY: glibc's function of this signature and these parameters of <malloc.h>; it changes what
        // later calls of `malloc` and `free` do, not what was allocated.
        unsafe { mallopt(parameter, value) };
    }
}

/// Configures the allocator of the whole process to retain at most about `bytes` of freed memory from now on:
/// allocations of a MiB or more get mappings of their own, and threads that start later share one heap. For
/// programs with a small memory budget; costs some page faults. Does nothing where the C library is not
/// glibc.
pub fn keep_little_heap(bytes: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let kept = i32::try_from(bytes).unwrap_or(i32::MAX);
        set(&[
            (parameter::TRIM_THRESHOLD, kept),
            (parameter::MMAP_THRESHOLD, 1 << 20),
            (parameter::ARENA_MAX, 1),
        ]);
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = bytes;
}

/// Configures the allocator of the whole process to give each allocation of `bytes` or more a mapping of its
/// own from now on, which is returned to the system when it is freed. For programs with large buffers that
/// come and go; each costs a page fault per page. Does nothing where the C library is not glibc.
pub fn map_allocations_from(bytes: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    set(&[(
        parameter::MMAP_THRESHOLD,
        i32::try_from(bytes).unwrap_or(i32::MAX),
    )]);
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = bytes;
}

/// Returns freed memory that the allocator retains to the system. Meant for the time between two phases with
/// different allocation patterns, in which the second may not be able to reuse the memory of the first. Takes
/// about a millisecond per 100 MiB. Does nothing where the C library is not glibc.
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> i32;
        }
        // SAFETY: glibc's function of this signature; it is safe to call from any thread at any time, and
        // touches only memory that nobody has allocated. (Another allocator makes it useless, not
        // wrong.)
        unsafe { malloc_trim(0) };
    }
}
