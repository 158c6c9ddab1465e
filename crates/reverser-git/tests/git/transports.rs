//! What must hold on every transport.

use reverser_git::{PushOptions, PushOutcome, RefusalKind, Tip};
use reverser_testkit::git_server::FileChange;

use crate::support::{Server, Transport, plan, pushed, write};

/// Runs one test for each transport, named after it.
macro_rules! on_every_transport {
    ($($test:ident)*) => {
        $(mod $test {
            use super::Transport;
            #[test]
            fn path() { super::$test(Transport::Path); }
            #[test]
            fn http() { super::$test(Transport::Http); }
            #[test]
            fn https() { super::$test(Transport::Https); }
            #[test]
            fn ssh() { super::$test(Transport::Ssh); }
            #[test]
            fn old_ssh() { super::$test(Transport::OldSsh); }
            #[test]
            fn daemon() { super::$test(Transport::Daemon); }
        })*
    };
}

on_every_transport! {
    an_empty_repository_gets_its_first_commit
}

fn an_empty_repository_gets_its_first_commit(transport: Transport) {
    let server = Server::start(transport);
    let mut mirror = server.mirror("main");
    assert_eq!(mirror.fetch().unwrap(), Tip::Empty);
    let tip = pushed(&write(
        &mut mirror,
        &[("live/a.yaml", Some("a\n")), ("live/b/c.yaml", Some("c\n"))],
    ));
    assert_eq!(server.repository.tip("main"), Some(tip));
    server.repository.assert_sound("main");
}
