//! `tenantd completions` and `tenantd man`.

use crate::{refused, tenantd, text};

#[test]
fn completions_and_manual_pages_are_complete() {
    for shell in ["bash", "fish", "zsh"] {
        let script = tenantd(&["completions", shell]).output().unwrap();
        assert!(script.status.success() && text(&script.stdout).contains("reindex"), "{shell}");
    }
    refused(&tenantd(&["completions", "elvish"]).output().unwrap(), 2);
    let page = text(&tenantd(&["man"]).output().unwrap().stdout);
    assert!(!page.contains("tenantd\\-help"), "there is no such page");
    for section in [".SH FILES", ".SH ENVIRONMENT", "EXIT STATUS", "TENANTD_CONFIG", "tenantd\\-key(1)"] {
        assert!(page.contains(section), "{section} is not in {page}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    assert!(tenantd(&["man", "--out", &path]).output().unwrap().status.success());
    for name in ["tenantd.1", "tenantd-serve.1", "tenantd-key-create.1", "tenantd-audit-verify.1"] {
        let page = std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(page.contains(".SH OPTIONS") && page.contains(".SH FILES"), "{name}");
    }
}
