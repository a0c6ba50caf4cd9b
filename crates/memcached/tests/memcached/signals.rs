//! SIGTERM and SIGINT end a server in order.

use rustix::process::Signal;

use crate::support::process::{ServerProcess, connect};

#[test]
fn a_server_that_is_told_to_end_keeps_everything() {
    for options in [&[][..], &["--tree", "lb"], &["--durability", "process"]] {
        for signal in [Signal::TERM, Signal::INT] {
            let directory = tempfile::tempdir().unwrap();
            let pidfile = directory.path().join("pid");
            let arguments = [options, &["-P", pidfile.to_str().unwrap()]].concat();
            let mut server = ServerProcess::start(directory.path(), &arguments);
            let mut client = connect(directory.path());
            client.talk("set k 0 0 1\r\nx\r\n", "STORED\r\n");
            assert_eq!(
                std::fs::read_to_string(&pidfile).unwrap().trim(),
                server.id().to_string()
            );
            let mut idle = connect(directory.path());
            idle.talk("mn\r\n", "MN\r\n");
            assert!(server.end(signal).success(), "{options:?}");
            client.expect_end();
            idle.expect_end();
            assert!(!pidfile.exists() && !directory.path().join("socket").exists());
            let _server = ServerProcess::start(directory.path(), options);
            connect(directory.path()).talk("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
        }
    }
}
