//! Architecture rules that the compiler does not enforce: layers within a slice, use of frameworks, dependencies in manifests, and
//! file length. There are no exceptions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "security/asvs.rs"]
mod asvs;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Each crate of the kernel may depend only on the crates before it.
const KERNEL: [&str; 4] = ["tenantd-base", "tenantd-store", "tenantd-egress", "tenantd-http"];
const MAX_LINES: usize = 500;
const VAGUE_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "misc", "types"];

struct Source {
    /// Relative to the folder, with forward slashes.
    path: String,
    text: String,
}

impl Source {
    /// The code without its comments.
    fn code(&self) -> String {
        self.text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    }

    /// The part of its slice: `model` for `slices/tickets/model.rs` and `slices/tickets/model/note.rs`.
    fn part(&self) -> Option<&str> {
        let within = self.path.strip_prefix("slices/")?.split('/').nth(1)?;
        Some(within.trim_end_matches(".rs"))
    }
}

fn collect(directory: &Path, name_ends: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, name_ends, found);
        } else if path.to_string_lossy().ends_with(name_ends) {
            found.push(path);
        }
    }
}

fn files(folder: &str, name_ends: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths = Vec::new();
    collect(&root, name_ends, &mut paths);
    assert!(!paths.is_empty());
    let source = |path: PathBuf| Source {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/"),
    };
    paths.into_iter().map(source).collect()
}

fn rust_files(folder: &str) -> Vec<Source> {
    files(folder, ".rs")
}

/// The lines of `[dependencies]`, each with the preceding line.
fn dependencies(manifest: &str) -> Vec<(&str, &str)> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let lines: Vec<&str> = section.lines().collect();
    let named =
        |place: usize| (lines[place].split(['.', ' ']).next().unwrap(), place.checked_sub(1).map_or("", |before| lines[before]));
    (0..lines.len()).filter(|place| !lines[*place].is_empty() && !lines[*place].starts_with('#')).map(named).collect()
}

#[test]
fn dependencies_follow_the_layers() {
    for manifest in files("src", "Cargo.toml") {
        let folder = manifest.path.trim_end_matches("/Cargo.toml");
        for (name, before) in dependencies(&manifest.text).into_iter().filter(|(name, _)| name.starts_with("tenantd-")) {
            let place = KERNEL.iter().position(|layer| *layer == name);
            if let Some(own) = folder.strip_prefix("kernel/") {
                let own =
                    KERNEL.iter().position(|layer| layer.ends_with(&format!("-{own}"))).expect("a crate of the kernel has a place");
                assert!(place.is_some_and(|place| place < own), "{} lists {name}", manifest.path);
            } else if folder.starts_with("slices/") {
                assert!(place.is_some() || before.starts_with("# "), "{} lists {name} and does not say why", manifest.path);
            }
        }
    }
}

#[test]
fn the_application_does_not_know_the_command_line() {
    for source in rust_files("src").iter().filter(|source| source.path.starts_with("app")) {
        assert!(!source.code().contains("crate::cli"), "{} imports the command line", source.path);
    }
}

/// Names that a part of a slice may not use. `api` → `service` → `repo` → `model`, and no HTTP below `api`.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    ("model", &["repo::", "service::", "api::", "tenantd_http", "poem", "http::", "StatusCode", "async fn"]),
    ("error", &["api::", "tenantd_http", "poem", "http::", "StatusCode"]),
    ("repo", &["service::", "api::", "tenantd_http", "poem", "http::", "StatusCode", "async fn"]),
    ("service", &["api::", "tenantd_http", "poem", "StatusCode"]),
];

/// Whether the code contains the whole word: `openapi::` does not contain `api::`.
fn names(code: &str, word: &str) -> bool {
    let stands_alone = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    code.match_indices(word).any(|(at, _)| stands_alone(at))
}

#[test]
fn layers_of_a_slice_import_downwards() {
    for source in rust_files("src") {
        for (_, words) in FORBIDDEN.iter().filter(|(part, _)| Some(*part) == source.part()) {
            let code = source.code();
            for word in *words {
                assert!(!names(&code, word), "{} names {word}", source.path);
            }
        }
    }
}

#[test]
fn frameworks_are_named_in_their_place_only() {
    for source in rust_files("src") {
        let code = source.code();
        let in_api = source.part() == Some("api");
        let face = source.part() == Some("lib");
        let http = ["kernel/http/", "console/", "app"].iter().any(|place| source.path.starts_with(place))
            || source.path == "kernel/base/openapi.rs";
        assert!(in_api || http || face || !names(&code, "poem"), "{} names poem", source.path);
        if face {
            assert!(!code.contains("poem::"), "{} names more of poem than the type of its API", source.path);
        }
        let index = source.path.starts_with("slices/search/index/");
        assert!(index || !names(&code, "tantivy::"), "{} names tantivy", source.path);
        assert!(source.path == "kernel/store/codec.rs" || !names(&code, "bincode"), "{} names bincode", source.path);
        assert!(source.path.starts_with("console/") || !names(&code, "maud"), "{} names maud", source.path);
    }
    for manifest in files("src", "Cargo.toml").iter().filter(|manifest| manifest.path != "kernel/store/Cargo.toml") {
        for (name, _) in dependencies(&manifest.text) {
            assert!(!["redb", "bincode"].contains(&name), "{} lists {name}", manifest.path);
        }
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
    sources.retain_mut(|source| {
        source.text.retain(|character| !character.is_whitespace());
        let end = source.text.find("#[cfg(test)]modtests").unwrap_or(source.text.len());
        source.text.truncate(end);
        !source.path.ends_with("/tests.rs")
    });
    for constant in constants {
        let name = format!("catalog::{constant}");
        let declarations = [format!("::new({name},"), format!("::new({name})"), format!("table:{name},")];
        let declared = |source: &&Source| declarations.iter().any(|declaration| source.text.contains(declaration));
        let owners: Vec<&str> = sources.iter().filter(declared).map(|source| source.path.as_str()).collect();
        assert_eq!(owners.len(), 1, "{constant} is declared in {owners:?}");
    }
}

#[test]
fn every_metric_is_described() {
    let described =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernel/base/telemetry/described.rs")).unwrap();
    let mut found = 0;
    for source in rust_files("src") {
        let code = source.code().replace(char::is_whitespace, "");
        for (kind, list) in [("counter", "COUNTERS"), ("gauge", "GAUGES"), ("histogram", "HISTOGRAMS")] {
            let described = described.split(&format!("const {list}")).nth(1).unwrap().split("];").next().unwrap();
            for rest in code.split(&format!("metrics::{kind}!(\"")).skip(1) {
                let name = rest.split('"').next().unwrap();
                found += 1;
                assert!(described.contains(&format!("(\"{name}\",")), "{name} in {} is no {kind} in described.rs", source.path);
            }
        }
    }
    assert!(found > 40, "only {found} metrics were found");
}
