//! Lines of the protocol: the parser must not panic.
#![no_main]

use halocline_memcached::fuzzing::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| parse(line));
