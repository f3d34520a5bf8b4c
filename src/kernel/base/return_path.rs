//! Where a browser goes after signing in. A link can name the place, so it must not lead to another site.

use serde::{Deserialize, Serialize};
use url::Url;

const MAX_BYTES: usize = 4000;
/// Stands for this site while a path is parsed.
const HERE: &str = "https://here.invalid";

/// A path on this site with its query and fragment, in the form that is sent to the browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnPath(String);

impl ReturnPath {
    /// Refuses `//host`, `/\host` and paths that become such when dots are removed: browsers treat them as other hosts.
    pub fn parse(text: &str) -> Option<Self> {
        let odd = |letter: char| letter == '\\' || letter.is_control() || letter.is_whitespace();
        if !text.starts_with('/') || text.starts_with("//") || text.len() > MAX_BYTES || text.chars().any(odd) {
            return None;
        }
        let here = Url::parse(HERE).ok()?;
        let read = here.join(text).ok()?;
        if read.origin() != here.origin() || read.path().starts_with("//") {
            return None;
        }
        read.as_str().strip_prefix(HERE).filter(|path| path.starts_with('/')).map(|path| Self(path.to_owned()))
    }

    /// The default: the home page of the console.
    pub fn home() -> Self {
        Self("/".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_path_stays_on_this_site() {
        for (given, path) in [
            ("/", "/"),
            ("/a/b?c=d&e=%2F#f", "/a/b?c=d&e=%2F#f"),
            ("/a/../b", "/b"),
            ("/tickets?next=//evil.example", "/tickets?next=//evil.example"),
            ("/ä", "/%C3%A4"),
        ] {
            assert_eq!(ReturnPath::parse(given).unwrap().as_str(), path, "{given}");
        }
        for bad in [
            "",
            "a",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/..//evil.example",
            "/.//evil.example",
            "/%2e//evil.example",
            "https://evil.example/",
            "javascript:alert(1)",
            "/a\nLocation: //evil.example",
            "/\t/evil.example",
            "/a b",
            "/a\u{7f}",
        ] {
            assert_eq!(ReturnPath::parse(bad), None, "{bad:?}");
        }
        assert_eq!(ReturnPath::parse(&format!("/{}", "a".repeat(4000))), None);
        assert_eq!(ReturnPath::parse(ReturnPath::home().as_str()), Some(ReturnPath::home()));
    }
}
