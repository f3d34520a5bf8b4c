//! The rules for a new password, after NIST SP 800-63B: a length, no composition rules, and nothing that an attacker tries first. A
//! password is a Unicode text; its code points count, and nothing is cut off or changed.
//!
//! **Invariant:** a refusal names the rule, never the password.

mod parts;
mod word_list;

use std::fmt::Write as _;

use tenantd_base::secrets::Secret;

use parts::{ContextSource, Part};

const SHORTEST: usize = 12;
const LONGEST: usize = 256;
/// The points that a password needs: as many as nine unpredictable characters, or three common words.
const NEEDED: u32 = 9;
/// Shorter words of the context say little.
const SHORTEST_WORD: usize = 3;
const PRODUCT: &str = "tenantd";
const ADVICE: &str = "Attackers try such passwords first. Use several words that do not belong together, or a random password from a \
                      password manager.";

/// Words that a password must not consist of: the product, the tenant, and the person.
#[derive(Clone, Debug)]
pub struct PasswordContext {
    words: Vec<(Vec<char>, ContextSource)>,
}

impl Default for PasswordContext {
    fn default() -> Self {
        let mut context = Self { words: Vec::new() };
        context.add(PRODUCT, ContextSource::Product);
        context
    }
}

impl PasswordContext {
    /// Adds the parts of a person's name and e-mail address.
    pub fn with_person(mut self, name: &str, email: Option<&str>) -> Self {
        let (local, domain) = email.and_then(|email| email.split_once('@')).unwrap_or_default();
        self.add(local, ContextSource::PersonEmail);
        // The last label of a domain, such as `com`, belongs to nobody.
        self.add(domain.rsplit_once('.').map_or(domain, |(own, _)| own), ContextSource::PersonEmail);
        self.add(name, ContextSource::PersonName);
        self
    }

    pub fn with_tenant(mut self, name: &str, slug: &str) -> Self {
        self.add(name, ContextSource::Tenant);
        self.add(slug, ContextSource::Tenant);
        self
    }

    /// Adds each word of a text, and the text without what separates them.
    fn add(&mut self, text: &str, source: ContextSource) {
        let lower = text.to_lowercase();
        let words = lower.split(|letter: char| !letter.is_alphanumeric()).map(|word| word.chars().collect::<Vec<_>>());
        let whole = lower.chars().filter(|letter| letter.is_alphanumeric()).collect();
        for word in words.chain([whole]) {
            if word.len() >= SHORTEST_WORD && !self.words.iter().any(|(known, _)| *known == word) {
                self.words.push((word, source));
            }
        }
    }
}

/// Checks a new password. The error is a sentence that says which rule refuses it, and what to do.
pub fn check(password: &Secret, context: &PasswordContext) -> Result<(), String> {
    let text = password.expose();
    let length = text.chars().count();
    if length < SHORTEST {
        return Err(format!("the password must have at least {SHORTEST} characters; it has {length}"));
    }
    if length > LONGEST {
        return Err(format!("the password must have at most {LONGEST} characters; it has {length}"));
    }
    if length <= word_list::LONGEST && word_list::holds(&text.to_lowercase()) {
        return Err(format!("the password is one of the most common passwords. {ADVICE}"));
    }
    let (points, parts) = parts::split(text, &context.words);
    if points < NEEDED { Err(format!("the password consists of {}. {ADVICE}", described(&parts))) } else { Ok(()) }
}

/// Names the parts of a password, such as `your e-mail address, a year and 1 other character`.
fn described(parts: &[Part]) -> String {
    let count = |wanted: Part| parts.iter().filter(|part| **part == wanted).count();
    let mut named: Vec<String> = Vec::new();
    let sources = [
        (ContextSource::PersonEmail, "a part of your e-mail address"),
        (ContextSource::PersonName, "your name"),
        (ContextSource::Tenant, "the name of your tenant"),
        (ContextSource::Product, "the name of this product"),
    ];
    named.extend(sources.iter().filter(|(source, _)| count(Part::Context(*source)) > 0).map(|(_, words)| (*words).to_owned()));
    let counted = [
        (Part::CommonWord, "a common word", "common words"),
        (Part::Sequence, "a sequence such as 1234 or qwerty", "sequences such as 1234 or qwerty"),
        (Part::Repetition, "a repetition", "repetitions"),
        (Part::Year, "a year", "years"),
        (Part::OtherCharacter, "1 other character", "other characters"),
    ];
    for (part, one, several) in counted {
        match count(part) {
            0 => {}
            1 => named.push(one.to_owned()),
            count => named.push(format!("{count} {several}")),
        }
    }
    let mut text = String::new();
    for (at, name) in named.iter().enumerate() {
        let joint = if at == 0 {
            ""
        } else if at + 1 == named.len() {
            " and "
        } else {
            ", "
        };
        let _ = write!(text, "{joint}{name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use tenantd_base::entropy::Entropy;

    use super::*;

    fn context() -> PasswordContext {
        PasswordContext::default()
            .with_person("Jane van Doe", Some("jane.doe@northwind.example"))
            .with_tenant("Acme Ltd.", "acme-ltd")
    }

    fn refusal(password: &str) -> Option<String> {
        check(&Secret::new(password), &context()).err()
    }

    #[test]
    fn a_password_has_a_minimum_and_a_maximum_length() {
        assert!(refusal("zrx7k2mqp4v").unwrap().contains("at least 12"));
        assert!(refusal("zrx7k2mqp4vw").is_none());
        let long: String = (0..256_u32).filter_map(|at| char::from_u32(0x4e00 + at * 7)).collect();
        assert!(refusal(&long).is_none());
        assert!(refusal(&format!("{long}x")).unwrap().contains("at most 256"));
        // Twelve code points, of which each has several bytes.
        assert!(refusal("жзлмнпрстфхц").is_none() && refusal("жзлмнпрстфх").is_some());
    }

    #[test]
    fn any_composition_is_allowed() {
        for password in ["zrxkmqpvwtbn", "739105826417", "ZRXKMQPVWTBN", "?§}|&^~=+<>(", "z r x k m q p v w t"] {
            assert_eq!(refusal(password), None, "{password}");
        }
    }

    #[test]
    fn common_passwords_are_refused_by_name() {
        for password in ["1234567890123", "Manchester United", "international", "qwerty123456", "Administrator"] {
            assert!(refusal(password).is_some(), "{password}");
        }
        let refused = refusal("Administrator").unwrap();
        assert!(refused.contains("is one of the most common passwords") && refused.contains("password manager"), "{refused}");
    }

    #[test]
    fn repetitions_and_sequences_are_refused() {
        let long = ["a".repeat(256), "xq7".repeat(85), "correct horse".repeat(9)];
        let short =
            ["aaaaaaaaaaaa", "123456789012", "qwertyqwerty", "abcabcabcabc", "1qaz2wsx3edc", "zyxwvutsrqpo", "qwertzuiopas"];
        for password in short.into_iter().chain(long.iter().map(String::as_str)) {
            let refused = refusal(password).unwrap_or_else(|| panic!("{password} is accepted"));
            assert!(["repetition", "sequence", "most common"].iter().any(|word| refused.contains(word)), "{password}: {refused}");
            assert!(!refused.contains(password), "{refused}");
        }
    }

    #[test]
    fn a_common_word_with_decoration_is_refused() {
        for (password, parts) in [
            ("Password2026!", "a common word, a year and 1 other character"),
            ("P@ssw0rd!2026#", "a common word, a year and 2 other characters"),
            ("!!!Summer1999!!!", "a common word, 2 sequences such as 1234 or qwerty and a year"),
            ("adminpassword&", "2 common words and 1 other character"),
            ("Welcome-1234567", "a common word and a sequence such as 1234 or qwerty"),
        ] {
            let refused = refusal(password).unwrap_or_else(|| panic!("{password} is accepted"));
            assert!(refused.starts_with(&format!("the password consists of {parts}.")), "{password}: {refused}");
        }
    }

    #[test]
    fn words_of_the_context_are_refused() {
        for (password, part) in [
            ("jane.doe@northwind", "a part of your e-mail address"),
            ("Northwind-2026!", "a part of your e-mail address"),
            ("Acme-Admin-2026", "the name of your tenant"),
            ("acmeltd!acmeltd", "the name of your tenant"),
            ("Tenantd#2026?!", "the name of this product"),
            ("JaneVanDoe1985-03", "your name"),
        ] {
            let refused = refusal(password).unwrap_or_else(|| panic!("{password} is accepted"));
            assert!(refused.contains(part), "{password}: {refused}");
        }
        let stranger = PasswordContext::default();
        assert!(check(&Secret::new("Northwind-7k2m"), &stranger).is_ok() && refusal("Northwind-7k2m").is_some());
    }

    #[test]
    fn passphrases_and_random_passwords_pass() {
        for password in [
            "correct horse battery",
            "another long password",
            "a long operator password",
            "146q1b-blw130-ubzv72-t8l88s",
            "dewqib-5vexfo-nuzkyp",
            "Der Mond ist aufgegangen",
            "acme staple lantern octopus",
            "tr0ub4dor&3xkcd",
        ] {
            assert_eq!(refusal(password), None, "{password}");
        }
    }

    #[test]
    fn generated_passwords_pass() {
        let mut entropy = Entropy::from_seed(1);
        for _ in 0..500 {
            let password = Secret::random_password(&mut entropy);
            assert_eq!(check(&password, &context()), Ok(()), "{}", password.expose());
        }
    }
}
