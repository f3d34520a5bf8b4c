//! Keeps the shape of the house: which module may import which, who may name a framework, how long a file may be. A list of
//! exceptions may only shrink.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "security/asvs.rs"]
mod asvs;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Each module of the kernel may import those before it.
const KERNEL_ORDER: &[&str] = &[
    "vocabulary",
    "entropy",
    "clock",
    "id",
    "clocks",
    "access",
    "authority",
    "quotas",
    "config",
    "telemetry",
    "secrets",
    "programs",
    "store",
    "tasks",
    "events",
    "holders",
    "portable",
    "egress",
    "http",
];

/// A slice that reads another's face, and why.
const SLICE_EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("auth", "api_keys", "turns a presented key into an identity"),
    ("auth", "directory", "signs in the people of the directory, and composes their use cases with its own"),
    ("auth", "platform", "a credential counts only while its tenant may act"),
    ("backup", "directory", "takes up jobs of the directory's devices, follows those, and shows their names"),
    ("backup", "tickets", "opens tickets for what goes wrong, in the transaction that finds it"),
    ("backup", "workflows", "brings them steps that set and report backups"),
    ("cloud", "directory", "providers and VMs belong to organizations, and show their names"),
    ("cloud", "platform", "an evaluation tenant may have the cloud that it tries on the same machine"),
    ("directory", "platform", "the admin socket names the tenant that it imports into"),
    ("inventory", "directory", "reports are about the devices of the directory, and show them as it does"),
    ("quotas", "platform", "a tenant whose quotas are shown or set is one of the platform's"),
    ("quotas", "workflows", "workflows and runs count themselves"),
    ("search", "cloud", "finds providers and VMs"),
    ("search", "directory", "finds organizations, people, devices and their software"),
    ("search", "tickets", "finds tickets"),
    ("search", "workflows", "finds workflows, and brings them a step that searches"),
    ("sso", "auth", "hands over whom a provider has proven, and why somebody is refused; its pages also take passwords"),
    ("sso", "directory", "finds and creates the people who sign in, and links them to who they are at their provider"),
    ("sso", "platform", "a provider counts only while its tenant may act; one of an evaluation may be on the same machine"),
    ("tickets", "directory", "tickets refer to organizations, people and devices, and show their names"),
    ("transfer", "platform", "a tenant that leaves or arrives is one of the platform's"),
    ("upkeep", "platform", "tells the operator, in the feed of the platform tenant"),
    ("webhooks", "platform", "an evaluation tenant may have its receiver on the same machine"),
    ("workflows", "api_keys", "the person who answers for a key counts in approvals"),
    ("workflows", "directory", "people who have approved are looked at again when there are enough of them"),
    ("workflows", "cloud", "steps verify providers, order VMs and wait for them"),
    ("workflows", "platform", "an evaluation tenant may have the server that a step calls on the same machine"),
    ("workflows", "inventory", "a step makes a report"),
    ("workflows", "secrets", "a step sends named secrets, and definitions must name those that are there"),
    ("workflows", "tickets", "steps create, change and comment on tickets"),
    ("api_keys", "directory", "the organizations that a key is restricted to must be there"),
    ("api_keys", "platform", "the admin socket names the tenant whose keys it manages, and scopes depend on the kind of tenant"),
];

const MAX_LINES: usize = 500;
const VAGUE_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "misc", "types"];

struct Source {
    /// Relative to `src`, with forward slashes.
    path: String,
    text: String,
}

impl Source {
    /// The code without its tests and comments.
    fn code(&self) -> String {
        let code = self.text.split("#[cfg(test)]").next().unwrap();
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs")
    }
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn rust_files(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    assert!(!paths.is_empty());
    let source = |path: PathBuf| Source {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/"),
    };
    paths.into_iter().map(source).collect()
}

/// The names that follow `prefix` in paths and in grouped imports, such as `kernel::{clock, store::…}`.
fn imported(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            names.extend(top_level_names(group));
        } else {
            names.push(rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect());
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The first segments of the entries of a braced import list, up to its closing brace.
fn top_level_names(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut current) = (0, Vec::new(), String::new());
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut current)),
            _ if depth == 0 => current.push(letter),
            _ => {}
        }
    }
    names.push(current);
    names.iter().map(|entry| entry.trim().split("::").next().unwrap().trim().to_owned()).collect()
}

#[test]
fn imports_go_down_and_never_up() {
    for source in rust_files("src") {
        let code = source.code();
        let layer = source.path.split('/').next().unwrap();
        let forbidden: &[&str] = match layer {
            "kernel" => &["slices", "app", "cli"],
            "slices" => &["app", "cli"],
            "app.rs" | "app" => &["cli"],
            _ => &[],
        };
        for name in imported(&code, "crate::") {
            assert!(!forbidden.contains(&name.as_str()), "{} imports {name}", source.path);
        }
    }
}

#[test]
fn kernel_modules_import_only_those_before_them() {
    for source in rust_files("src").iter().filter(|source| source.path.starts_with("kernel/") && !source.is_test()) {
        let own = source.path.split('/').nth(1).unwrap().trim_end_matches(".rs");
        let Some(place) = KERNEL_ORDER.iter().position(|module| *module == own) else {
            assert_eq!(own, "mod", "{} is not in the order of the kernel", source.path);
            continue;
        };
        for name in imported(&source.code(), "kernel::") {
            let Some(other) = KERNEL_ORDER.iter().position(|module| *module == name) else { continue };
            assert!(other <= place, "{} imports kernel::{name}, which stands behind {own}", source.path);
        }
    }
}

#[test]
fn a_slice_imports_no_slice_but_through_a_listed_face() {
    let mut used = Vec::new();
    for source in rust_files("src").iter().filter(|source| source.path.starts_with("slices/") && source.path != "slices/mod.rs") {
        let own = source.path.split('/').nth(1).unwrap();
        let code = source.code();
        for name in imported(&code, "slices::") {
            if name == own {
                continue;
            }
            let listed = SLICE_EXCEPTIONS.iter().position(|(from, to, _)| *from == own && *to == name);
            assert!(listed.is_some(), "{} imports the slice {name}", source.path);
            used.extend(listed);
            for inner in ["model", "repo", "service", "api", "error"] {
                assert!(!code.contains(&format!("{name}::{inner}::")), "{} reaches behind the face of {name}", source.path);
            }
        }
    }
    for (place, (from, to, reason)) in SLICE_EXCEPTIONS.iter().enumerate() {
        assert!(used.contains(&place), "{from} → {to} ({reason}) is not needed any more: remove it");
    }
}

#[test]
fn layers_of_a_slice_import_downwards() {
    let forbidden: [(&str, &[&str]); 4] = [
        ("model.rs", &["super::repo", "super::service", "super::api", "kernel::store", "tokio::", "async fn"]),
        ("error.rs", &["poem", "StatusCode", "super::api"]),
        ("repo.rs", &["super::service", "super::api", "async fn"]),
        ("service.rs", &["super::api"]),
    ];
    for source in rust_files("src").iter().filter(|source| source.path.starts_with("slices/")) {
        let file = source.path.rsplit('/').next().unwrap();
        for (name, words) in forbidden.iter().filter(|(name, _)| *name == file) {
            let code = source.code();
            for word in *words {
                assert!(!code.contains(word), "{}: a {name} must not have {word}", source.path);
            }
        }
    }
}

#[test]
fn frameworks_are_named_in_their_place_only() {
    for source in rust_files("src") {
        let code = source.code();
        let in_api = source.path.starts_with("slices/") && source.path.contains("/api/");
        let face = source.path.starts_with("slices/") && source.path.ends_with("/mod.rs");
        let http = source.path.starts_with("kernel/http/") || source.path.starts_with("app");
        assert!(in_api || http || face || !code.contains("poem"), "{} names poem", source.path);
        if face && !in_api {
            assert!(!code.contains("poem::"), "{} names more of poem than the type of its API", source.path);
        }
        let store = source.path.starts_with("kernel/store/");
        assert!(store || !code.contains("redb::"), "{} names redb", source.path);
        let index = source.path.starts_with("slices/search/index/");
        assert!(index || !code.contains("tantivy::"), "{} names tantivy", source.path);
        assert!(source.path == "kernel/store/codec.rs" || !code.contains("bincode"), "{} names bincode", source.path);
    }
}

#[test]
fn every_file_says_what_it_is_and_stays_short() {
    for folder in ["src", "tests", "benches"] {
        for source in rust_files(folder) {
            let lines = source.text.lines().count();
            assert!(lines <= MAX_LINES, "{folder}/{} has {lines} lines", source.path);
            let headed = source.text.starts_with("//!") || source.text.starts_with("#![doc = include_str!");
            assert!(headed, "{folder}/{} does not say what it is", source.path);
            let name = source.path.rsplit('/').next().unwrap().trim_end_matches(".rs");
            assert!(!VAGUE_NAMES.contains(&name), "{folder}/{} has a name that says nothing", source.path);
        }
    }
}

#[test]
fn every_table_has_one_owner() {
    let catalog = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernel/store/catalog.rs")).unwrap();
    let constants = catalog
        .lines()
        .filter_map(|line| line.trim().strip_suffix("\";")?.split_once(" \"").and_then(|(row, _)| row.split(' ').next()));
    let mut sources = rust_files("src");
    sources.retain(|source| !source.is_test());
    for constant in constants {
        let declared = |source: &&Source| {
            let code = source.code().replace(char::is_whitespace, "");
            let name = format!("catalog::{constant}");
            code.contains(&format!("::new({name},"))
                || code.contains(&format!("::new({name})"))
                || code.contains(&format!("table:{name},"))
        };
        let owners: Vec<&str> = sources.iter().filter(declared).map(|source| source.path.as_str()).collect();
        assert_eq!(owners.len(), 1, "{constant} is declared in {owners:?}");
    }
}
