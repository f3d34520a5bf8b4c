//! The public contract as golden files: the document, the operations, the problem codes, the kinds of events. Review shows every
//! change; `UPDATE_GOLDEN=1 cargo test` rewrites the files.

use std::path::PathBuf;

use serde_json::Value;
use tenantd::app;

use tenantd_base::config;
use tenantd_http::{openapi::is_described, problem::Code};

use crate::harness::example;

fn check(name: &str, content: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, content).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == content, "{name} differs from what is written down; look at it and run UPDATE_GOLDEN=1 cargo test");
}

fn document() -> Value {
    app::public_document(&config::load(None, [], &[]).unwrap()).unwrap()
}

#[test]
fn the_document_matches_its_golden_file() {
    check("openapi.json", &format!("{}\n", serde_json::to_string_pretty(&document()).unwrap()));
}

/// A field without a schema would be missing in the document.
#[test]
fn the_document_contains_every_example_file() {
    let internal = app::internal_document(&config::load(None, [], &[]).unwrap()).unwrap();
    let documents = [document(), internal];
    let files = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path());
    let mut shown = 0;
    for slice in files(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/slices")) {
        for file in files(slice.join("api/examples")) {
            let [slice, file] = [&slice, &file].map(|path| path.file_stem().unwrap().to_str().unwrap());
            let words = file.split('_').map(|word| format!("{}{}", word[..1].to_uppercase(), &word[1..]));
            let schema = format!("/components/schemas/{}/examples/0", words.collect::<String>());
            let published = documents.iter().find_map(|document| document.pointer(&schema));
            assert_eq!(published, Some(&example(&format!("{slice}/{file}"))), "{slice}/{file}");
            shown += 1;
        }
    }
    assert!(shown > 50, "{shown}");
}

#[test]
fn the_agent_document_matches_its_golden_file() {
    let document = app::ingest_document(&config::load(None, [], &[]).unwrap()).unwrap();
    check("internal_openapi.json", &format!("{}\n", serde_json::to_string_pretty(&document).unwrap()));
}

#[test]
fn every_parameter_and_every_property_is_described() {
    fn walk(value: &Value, place: &str, components: &Value, missing: &mut Vec<String>) {
        let mut judge = |name: &str, member: &Value| {
            if !is_described(member, components) {
                missing.push(format!("{place}: {name}"));
            }
        };
        if let Some(properties) = value.get("properties").and_then(Value::as_object) {
            properties.iter().for_each(|(name, property)| judge(name, property));
        }
        for parameter in value.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            judge(parameter["name"].as_str().unwrap(), parameter);
        }
        match value {
            Value::Array(items) => items.iter().for_each(|item| walk(item, place, components, missing)),
            Value::Object(members) => {
                for (name, part) in members {
                    match (name.as_str(), part) {
                        ("example" | "examples" | "default" | "enum" | "const", _) => {}
                        // Property names that a caller chooses.
                        ("properties", Value::Object(properties)) => {
                            properties.iter().for_each(|(name, part)| walk(part, &format!("{place}.{name}"), components, missing));
                        }
                        _ => walk(part, &format!("{place}/{name}"), components, missing),
                    }
                }
            }
            _ => {}
        }
    }
    let config = config::load(None, [], &[]).unwrap();
    for document in [document(), app::internal_document(&config).unwrap(), app::ingest_document(&config).unwrap()] {
        let mut missing = Vec::new();
        walk(&document, "", &document["components"], &mut missing);
        assert!(missing.is_empty(), "{} without a description:\n{}", missing.len(), missing.join("\n"));
    }
}

#[test]
fn the_operations_match_their_golden_file() {
    let config = config::load(None, [], &[]).unwrap();
    let (ingest, internal) = (app::ingest_document(&config).unwrap(), app::internal_document(&config).unwrap());
    let mut lines = Vec::new();
    for document in [document(), ingest, internal] {
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let need = operation["x-need"].as_str().unwrap_or("public");
                lines.push(format!("{} {path} {} {need}", method.to_uppercase(), operation["operationId"].as_str().unwrap()));
            }
        }
    }
    check("operations.txt", &format!("{}\n", lines.join("\n")));
}

#[test]
fn the_problem_codes_match_their_golden_file() {
    let lines: Vec<String> = Code::ALL.iter().map(|code| format!("{} {}", code.status().as_u16(), code.name())).collect();
    check("problem_codes.txt", &format!("{}\n", lines.join("\n")));
}

#[test]
fn the_event_kinds_match_their_golden_file() {
    let lines: Vec<String> = app::event_kinds().iter().map(|kind| format!("{} {}", kind.name, kind.schema)).collect();
    check("events.txt", &format!("{}\n", lines.join("\n")));
}
