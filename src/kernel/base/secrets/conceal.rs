//! Removes secrets from answers of servers that the secrets were sent to. It finds them in plain form and in the encodings in which
//! servers repeat them.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD};
use zeroize::Zeroizing;

use super::Secret;

/// Replaces a secret.
const MASK: &[u8] = b"[secret]";
/// Shorter secrets would match everywhere. Callers that accept secrets refuse shorter ones.
pub const SHORTEST_SECRET: usize = 4;

/// The secrets to search for.
#[derive(Default)]
pub struct Concealer {
    forms: Vec<Zeroizing<Vec<u8>>>,
}

impl std::fmt::Debug for Concealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Concealer(…)")
    }
}

impl Concealer {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let long = secrets.into_iter().filter(|secret| secret.expose().len() >= SHORTEST_SECRET);
        let mut forms: Vec<Zeroizing<Vec<u8>>> = long.flat_map(forms).collect();
        // If two forms start alike, the longer one goes first so that none of it remains.
        forms.sort_unstable_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        forms.dedup();
        Self { forms }
    }

    /// The text without the secrets. A text that was cut off may end with the beginning of a secret.
    pub fn conceal(&self, text: &[u8], cut_off: bool) -> Vec<u8> {
        let mut shown = Vec::with_capacity(text.len());
        let mut rest = text;
        while let [first, others @ ..] = rest {
            if let Some(found) = self.forms.iter().find(|form| rest.starts_with(form)) {
                shown.extend_from_slice(MASK);
                rest = rest.get(found.len()..).unwrap_or_default();
            } else if cut_off && rest.len() >= SHORTEST_SECRET && self.forms.iter().any(|form| form.starts_with(rest)) {
                shown.extend_from_slice(MASK);
                break;
            } else {
                shown.push(*first);
                rest = others;
            }
        }
        shown
    }

    pub fn conceal_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.conceal(text.as_bytes(), false)).into_owned()
    }
}

/// A secret in plain form, in JSON, in a URL and in Base64.
fn forms(secret: &Secret) -> Vec<Zeroizing<Vec<u8>>> {
    let plain = secret.expose();
    let json = serde_json::to_string(plain).unwrap_or_default();
    let json = json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
    let form: String = form_urlencoded::byte_serialize(plain.as_bytes()).collect();
    let texts = [
        plain.to_owned(),
        json.replace('/', "\\/"),
        json,
        form.replace('+', "%20"),
        lower_escapes(&form),
        lower_escapes(&form.replace('+', "%20")),
        form,
        BASE64.encode(plain.as_bytes()),
        BASE64_NOPAD.encode(plain.as_bytes()),
        BASE64URL.encode(plain.as_bytes()),
        BASE64URL_NOPAD.encode(plain.as_bytes()),
    ];
    texts.into_iter().filter(|text| text.len() >= SHORTEST_SECRET).map(|text| Zeroizing::new(text.into_bytes())).collect()
}

/// Writes `%2F` as `%2f`.
fn lower_escapes(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        out.push('%');
        out.push_str(&digits.to_ascii_lowercase());
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(secrets: &[&str], text: &str, cut_off: bool) -> String {
        let secrets: Vec<Secret> = secrets.iter().map(|text| Secret::new(*text)).collect();
        String::from_utf8(Concealer::new(&secrets).conceal(text.as_bytes(), cut_off)).unwrap()
    }

    #[test]
    fn a_secret_is_found_in_every_form() {
        let secret = "a/b \"c\"+d";
        for form in [
            "a/b \"c\"+d",
            r#"a/b \"c\"+d"#,
            r#"a\/b \"c\"+d"#,
            "a%2Fb+%22c%22%2Bd",
            "a%2Fb%20%22c%22%2Bd",
            "a%2fb%20%22c%22%2bd",
            "YS9iICJjIitk",
        ] {
            assert_eq!(shown(&[secret], &format!("<{form}>{form}"), false), "<[secret]>[secret]", "{form}");
        }
        assert_eq!(shown(&["hunter2!"], "Basic aHVudGVyMiE=", false), "Basic [secret]");
        assert_eq!(shown(&["hunter2!"], "aHVudGVyMiE", false), "[secret]");
    }

    #[test]
    fn the_longer_of_two_secrets_is_removed_completely() {
        assert_eq!(shown(&["token", "token-2"], "token-2 token", false), "[secret] [secret]");
        assert_eq!(shown(&["abc"], "abc", false), "abc", "too short to be a secret");
        assert_eq!(shown(&[], "abc", true), "abc");
    }

    #[test]
    fn a_secret_that_was_cut_off_is_removed() {
        assert_eq!(shown(&["hunter2-long"], "x hunter2", true), "x [secret]");
        assert_eq!(shown(&["hunter2-long"], "x hunter2", false), "x hunter2");
        assert_eq!(shown(&["hunter2-long"], "x hun", true), "x hun");
        assert!(!format!("{:?}", Concealer::new([&Secret::new("hunter2")])).contains("hunter2"));
    }
}
