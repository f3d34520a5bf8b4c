//! Only the owner can read the files of a server, whatever umask it starts with.

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::Server;

/// Starts a demo server with a umask that lets everybody read its files.
fn start(arguments: &str, temporary: &Path) -> (Child, Value) {
    let script = format!("umask 022; exec \"$0\" demo --tickets 20 --listen 127.0.0.1:0 --json {arguments}");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tenantd")]).env_remove("TENANTD_CONFIG").env("TMPDIR", temporary);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

/// Everything in and including a directory that other users can access.
fn open_to_others(directory: &Path, found: &mut Vec<PathBuf>, seen: &mut usize) {
    let mut look = |path: &Path| {
        // The index may have merged and deleted a file in the meantime.
        let Ok(metadata) = std::fs::symlink_metadata(path) else { return };
        *seen += 1;
        if metadata.permissions().mode() & 0o077 != 0 {
            found.push(path.to_owned());
        }
    };
    look(directory);
    let entries: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.iter().filter(|path| !path.is_dir()).for_each(|path| look(path));
    entries.iter().filter(|path| path.is_dir()).for_each(|path| open_to_others(path, found, seen));
}

#[test]
fn only_the_owner_can_read_the_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (temporary, data) = (directory.path().join("tmp"), directory.path().join("data"));
    std::fs::create_dir(&temporary).unwrap();
    // As an older release left it.
    std::fs::create_dir_all(data.join("search")).unwrap();
    std::fs::write(data.join("search/leftover"), "").unwrap();
    for (path, mode) in [(data.clone(), 0o755), (data.join("search"), 0o755), (data.join("search/leftover"), 0o644)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    for (arguments, place) in [(format!("--data-dir {}", data.display()), data.clone()), (String::new(), temporary.clone())] {
        let (child, info) = start(&arguments, &temporary);
        let place = if arguments.is_empty() {
            std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap()
        } else {
            place
        };
        let server = Server { child, directory: place.clone(), info };
        server.json(&["tenant", "create", "Acme"]);
        // The index answers this, so it is on disk.
        while server.json(&["reindex"])["documents"].as_u64().unwrap() == 0 {}
        server.get("/api/search?q=printer");
        let (mut found, mut seen) = (Vec::new(), 0);
        open_to_others(&place, &mut found, &mut seen);
        assert!(found.is_empty(), "others can get at {found:?}");
        assert!(seen > 10, "only {seen} files");
        assert_eq!(server.stop(), Some(0));
    }
}
