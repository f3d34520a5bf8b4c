//! Every command, with text output and with `--json`, when it succeeds and when it fails: scripts get JSON, and the exit code names
//! the kind of failure.

use std::{path::Path, process::Output};

use serde_json::Value;

use crate::{Server, tenantd, text};

/// A file to import.
const ORGANIZATION: &str = "{\"external_id\":\"acme\",\"name\":\"Acme\"}\n";

/// Commands that succeed with a server. `#` is a different word each time, `@` a folder of the test.
const WITH_SERVER: &[&str] = &[
    "tenant create Acme# --slug acme#",
    "tenant list",
    "tenant show demo",
    "tenant suspend acme#",
    "tenant resume acme#",
    "user create ada#@acme.example --tenant acme#",
    "user list --tenant demo",
    "user reset-password ada#@acme.example",
    "key create Key# --tenant demo --scope tickets:read",
    "key list --tenant demo",
    "import @/organizations.ndjson --tenant demo --kind organization",
    "backup @/snapshot#",
    "check",
    "check @/snapshot#",
    "audit verify",
    "audit checkpoint",
    "audit public-key",
    "reload",
    "reindex",
    "rotate-key",
    "support-bundle @/bundle#.tar",
];

/// Commands that succeed in a directory without a server.
const WITHOUT_SERVER: &[&str] = &[
    "check",
    "audit verify",
    "audit checkpoint",
    "reindex",
    "rotate-key",
    "repair",
    "compact",
    "compact --dry-run",
    "support-bundle @/offline#.tar",
    "openapi",
    "openapi --internal",
    "openapi --ingest",
    "config check",
    "config show",
    "completions bash",
    "man",
];

/// Commands that fail in a directory without an installation, with their exit codes.
const FAILING: &[(&str, i32, &str)] = &[
    ("tenant list", 3, "not_running"),
    ("tenant create Acme", 3, "not_running"),
    ("user list --tenant demo", 3, "not_running"),
    ("key list --tenant demo", 3, "not_running"),
    ("import @/organizations.ndjson --tenant demo", 3, "not_running"),
    ("listen --tenant demo", 3, "not_running"),
    ("domain approve acme.com --tenant demo", 3, "not_running"),
    ("idp relax --tenant demo", 3, "not_running"),
    ("backup @/none", 3, "not_running"),
    ("reload", 3, "not_running"),
    ("check", 1, "failed"),
    ("check @/missing", 1, "failed"),
    ("audit verify", 1, "failed"),
    ("reindex", 1, "failed"),
    ("rotate-key", 1, "failed"),
    ("repair", 1, "failed"),
    ("compact", 1, "failed"),
    ("support-bundle @/none.tar", 1, "failed"),
    ("restore @/missing", 1, "failed"),
    ("config check --config @/missing.toml", 1, "failed"),
    ("serve --config @/missing.toml", 1, "failed"),
    ("nonsense", 2, "usage"),
    ("tenant", 2, "usage"),
    ("key create", 2, "usage"),
    ("backup", 2, "usage"),
    ("backup list", 1, "failed"),
    ("backup --offsite", 3, "not_running"),
    ("restore", 2, "usage"),
    ("completions elvish", 2, "usage"),
];

/// Runs the command in a data directory. `word` distinguishes runs.
fn run(command: &str, folder: &Path, data: &Path, word: &str, json: bool) -> Output {
    let folder = folder.display().to_string();
    let arguments: Vec<String> =
        command.split(' ').map(|part| part.replace('#', word).replace("@/", &format!("{folder}/"))).collect();
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let data = data.display().to_string();
    arguments.extend(["--data-dir", &data]);
    if json {
        arguments.push("--json");
    }
    tenantd(&arguments).output().unwrap()
}

fn assert_succeeds(command: &str, folder: &Path, data: &Path) {
    let human = run(command, folder, data, "one", false);
    assert_eq!(human.status.code(), Some(0), "{command}: {}", text(&human.stderr));
    assert!(!human.stdout.is_empty(), "{command} says nothing");
    let json = run(command, folder, data, "two", true);
    assert_eq!(json.status.code(), Some(0), "{command} --json: {}", text(&json.stderr));
    let value: Result<Value, _> = serde_json::from_slice(&json.stdout);
    assert!(value.is_ok_and(|value| value.is_object()), "{command} --json printed {}", text(&json.stdout));
    assert!(json.stderr.is_empty(), "{command} --json: {}", text(&json.stderr));
}

fn assert_fails(command: &str, code: i32, name: &str, folder: &Path, data: &Path) {
    let human = run(command, folder, data, "one", false);
    assert_eq!(human.status.code(), Some(code), "{command}: {} {}", text(&human.stdout), text(&human.stderr));
    assert!(!human.stderr.is_empty(), "{command} does not say why");
    let json = run(command, folder, data, "two", true);
    assert_eq!(json.status.code(), Some(code), "{command} --json: {}", text(&json.stderr));
    let parsed: Value =
        serde_json::from_slice(&json.stderr).unwrap_or_else(|error| panic!("{command}: {error}: {}", text(&json.stderr)));
    assert_eq!((&parsed["error"]["code"], &parsed["error"]["exit_code"]), (&name.into(), &code.into()), "{command}");
    assert!(parsed["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{command}");
}

#[test]
fn successful_commands_print_json() {
    let directory = tempfile::tempdir().unwrap();
    let (folder, data) = (directory.path(), directory.path().join("data"));
    std::fs::write(folder.join("organizations.ndjson"), ORGANIZATION).unwrap();
    let server = Server::start(&data);
    for command in WITH_SERVER {
        assert_succeeds(command, folder, &data);
    }
    let key = server.json(&["key", "create", "Gone", "--tenant", "demo", "--scope", "*"])["id"].as_str().unwrap().to_owned();
    assert_eq!(server.json(&["key", "revoke", &key, "--tenant", "demo"])["status"], "revoked");
    // Every refused action has the exit code of a denial.
    let url = server.info["url"].as_str().unwrap().to_owned();
    let import =
        ["import", &folder.join("organizations.ndjson").display().to_string(), "--url", &url, "--kind", "organization"].join(" ");
    for json in [false, true] {
        let mut command = tenantd(&import.split(' ').collect::<Vec<_>>());
        let output = command.args(json.then_some("--json")).env("TENANTD_API_KEY", "tck_live_wrong").output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
        assert_eq!(serde_json::from_slice::<Value>(&output.stderr).is_ok_and(|parsed| parsed["error"]["code"] == "denied"), json);
    }
    assert_fails("tenant show nobody", 1, "failed", folder, &data);
    assert_fails("compact", 1, "failed", folder, &data);
    assert_eq!(server.stop(), Some(0));
    for command in WITHOUT_SERVER {
        assert_succeeds(command, folder, &data);
    }
    let installed = run("init", folder, &folder.join("new"), "one", true);
    assert!(serde_json::from_slice::<Value>(&installed.stdout).is_ok(), "{}", text(&installed.stdout));
}

#[test]
fn failed_commands_print_json_and_exit_codes() {
    let directory = tempfile::tempdir().unwrap();
    let (folder, data) = (directory.path(), directory.path().join("data"));
    std::fs::write(folder.join("organizations.ndjson"), ORGANIZATION).unwrap();
    for (command, code, name) in FAILING {
        assert_fails(command, *code, name, folder, &data);
    }
    for asked_for in ["--help", "--version", "tenant --help"] {
        assert_eq!(run(asked_for, folder, &data, "one", true).status.code(), Some(0), "{asked_for}");
    }
}
