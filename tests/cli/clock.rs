//! `tenantd clock`: an operator advances the clock of the demo tenant.

use serde_json::json;

use crate::{Server, refused, text};

#[test]
fn an_advanced_demo_clock_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let advanced = server.json(&["clock", "advance", "1d12h", "--tenant", "demo"]);
    assert_eq!(advanced["clock"]["ahead_seconds"], 129_600);
    let shown = text(&server.run(&["clock", "advance", "90m", "--tenant", "demo"]).stdout);
    assert!(shown.contains("135000"), "{shown}");
    server.json(&["tenant", "create", "Acme GmbH"]);
    assert!(refused(&server.run(&["clock", "advance", "1d", "--tenant", "acme-gmbh"]), 1).contains("only an evaluation tenant"));
    assert!(refused(&server.run(&["clock", "advance", "1w", "--tenant", "demo"]), 2).contains("is not a duration"));
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(directory.path());
    assert_eq!(server.json(&["tenant", "show", "demo"])["clock"]["ahead_seconds"], json!(135_000));
    assert!(text(&server.run(&["tenant", "show", "demo"]).stdout).contains("current time"));
}
