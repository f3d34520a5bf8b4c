//! `tenantd reindex`, with a server and without one.

use crate::{Server, tenantd, text};

#[test]
fn the_index_is_rebuilt_online_and_offline() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let server = Server::with_sample(directory.path(), &["--tickets", "40"]);
    let organizations = |server: &Server| server.get("/api/search?q=type:organization")["page"]["total"].as_u64().unwrap();
    let expected = organizations(&server);
    assert!(expected > 5, "{expected}");
    let online = server.json(&["reindex"])["documents"].as_u64().unwrap();
    assert!(online > 40, "{online}");
    assert_eq!(organizations(&server), expected);
    assert_eq!(server.stop(), Some(0));
    std::fs::remove_dir_all(directory.path().join("search")).unwrap();
    let output = tenantd(&["reindex", "--data-dir", &path]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("Rebuilt the search index: "), "{}", text(&output.stdout));
    let server = Server::with_sample(directory.path(), &[]);
    assert_eq!(organizations(&server), expected);
}
