//! A person as a client of the protocol sees them: one form for accounts with and without a profile.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use tenantd_base::{clock::Timestamp, letters::is_blank};
use tenantd_directory::{User, UserStatus, normalize_email};

use super::{
    super::error::{Reason, ScimError},
    MAX_EMAILS, MAX_TEXT, Profile,
    attribute::{Meaning, Resource, meaning, shown, without_schema},
    set,
};

/// The longest address, as in the directory.
const MAX_ADDRESS: usize = 254;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Email {
    pub(crate) value: String,
    pub(crate) kind: Option<String>,
    pub(crate) primary: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) user_name: String,
    pub(crate) external_id: Option<String>,
    pub(crate) formatted: Option<String>,
    pub(crate) given_name: Option<String>,
    pub(crate) family_name: Option<String>,
    pub(crate) display_name: Option<String>,
    pub(crate) emails: Vec<Email>,
    pub(crate) active: bool,
    pub(crate) locale: Option<String>,
    pub(crate) timezone: Option<String>,
}

impl Profile {
    /// The profile with its names in the form of the protocol.
    pub(crate) fn cleaned(&self) -> Self {
        Self {
            user_name: self.user_name.clone().filter(|name| !is_blank(name)),
            formatted: cleaned(self.formatted.as_deref()),
            given_name: cleaned(self.given_name.as_deref()),
            family_name: cleaned(self.family_name.as_deref()),
            display_name: cleaned(self.display_name.as_deref()),
            ..self.clone()
        }
    }
}

/// A stored name in the form that [`text`] gives: the name of an account can have space around it, line feeds and tabs. `None` if
/// nobody sees anything of it.
fn cleaned(name: Option<&str>) -> Option<String> {
    let plain: String = name?.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let cut: String = plain.trim().chars().take(MAX_TEXT).collect();
    let name = cut.trim_end();
    (!is_blank(name)).then(|| name.to_owned())
}

impl Person {
    /// The account decides about name, address and status. A profile adds what the account has no place for. The names are in the
    /// form that [`Self::read`] accepts, so a client can change one thing of an account whose name the protocol would refuse.
    pub(crate) fn of(user: &User, profile: Option<&Profile>) -> Self {
        let address = user.email.clone().unwrap_or_default();
        let own = || vec![Email { value: address.clone(), kind: Some("work".to_owned()), primary: Some(true) }];
        let active = user.status == UserStatus::Active;
        let name = cleaned(Some(&user.name));
        let Some(profile) = profile.map(Profile::cleaned) else {
            return Self {
                user_name: address.clone(),
                external_id: None,
                formatted: name.clone(),
                given_name: None,
                family_name: None,
                display_name: name,
                emails: own(),
                active,
                locale: None,
                timezone: None,
            };
        };
        let mut person = Self {
            user_name: profile.user_name.unwrap_or_else(|| address.clone()),
            external_id: profile.external_id,
            formatted: profile.formatted,
            given_name: profile.given_name,
            family_name: profile.family_name,
            display_name: profile.display_name,
            emails: profile.emails,
            active,
            locale: profile.locale,
            timezone: profile.timezone,
        };
        // Somebody may have changed the account since.
        if Some(person.name()) != name {
            (person.formatted, person.display_name) = (name.clone(), name);
        }
        if person.emails.is_empty() || person.address().ok().as_ref() != Some(&address) {
            person.emails = own();
        }
        person
    }

    /// The profile that keeps what the account does not.
    pub(crate) fn profile(&self, address: &str, ruled: bool, since: Timestamp) -> Profile {
        let is_address = normalize_email(&self.user_name).is_ok_and(|name| name == address);
        Profile {
            external_id: self.external_id.clone(),
            user_name: (!is_address).then(|| self.user_name.clone()),
            formatted: self.formatted.clone(),
            given_name: self.given_name.clone(),
            family_name: self.family_name.clone(),
            display_name: self.display_name.clone(),
            emails: self.emails.clone(),
            locale: self.locale.clone(),
            timezone: self.timezone.clone(),
            ruled,
            since,
        }
    }

    /// The name of the account.
    pub(crate) fn name(&self) -> String {
        let parts = [&self.given_name, &self.family_name].map(|part| part.as_deref().unwrap_or_default());
        let joined = parts.join(" ").trim().to_owned();
        let given = self.display_name.clone().or_else(|| self.formatted.clone());
        let name = given.unwrap_or_else(|| if joined.is_empty() { self.user_name.clone() } else { joined });
        let cut: String = name.chars().take(MAX_TEXT).collect();
        cut.trim_end().to_owned()
    }

    /// The address of the account, in its normal form: the primary one, or the first one, or the user name.
    pub(crate) fn address(&self) -> Result<String, ScimError> {
        let primary = self.emails.iter().find(|email| email.primary == Some(true)).or(self.emails.first());
        let text = primary.map_or(self.user_name.as_str(), |email| email.value.as_str());
        normalize_email(text)
            .map_err(|_| ScimError::value("The account needs an e-mail address. Send one in `emails`, or as `userName`."))
    }

    /// Lets the address follow a new user name, if it was the user name before and the client has not sent another one.
    pub(crate) fn follow_user_name(&mut self, before: &Self) {
        let was_address = normalize_email(&before.user_name).ok() == before.address().ok();
        if self.user_name != before.user_name && self.emails == before.emails && was_address {
            let Ok(address) = normalize_email(&self.user_name) else { return };
            let old = before.address().ok();
            for email in &mut self.emails {
                if normalize_email(&email.value).ok() == old {
                    email.value.clone_from(&address);
                }
            }
        }
    }

    /// The resource without what the server adds: `id`, `meta`, `groups`.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = Map::new();
        let mut put = |name: &str, text: &Option<String>| {
            if let Some(text) = text {
                value.insert(name.to_owned(), text.as_str().into());
            }
        };
        put("userName", &Some(self.user_name.clone()));
        put("externalId", &self.external_id);
        put("displayName", &self.display_name);
        put("locale", &self.locale);
        put("timezone", &self.timezone);
        let mut name = Map::new();
        for (part, text) in [("formatted", &self.formatted), ("givenName", &self.given_name), ("familyName", &self.family_name)] {
            if let Some(text) = text {
                name.insert(part.to_owned(), text.as_str().into());
            }
        }
        if !name.is_empty() {
            value.insert("name".to_owned(), name.into());
        }
        value.insert("emails".to_owned(), self.emails.iter().map(email_value).collect());
        value.insert("active".to_owned(), self.active.into());
        Value::Object(value)
    }

    /// Reads the resource that a client sent. `active` is what an absent `active` means.
    pub(crate) fn read(value: &Value, active: bool) -> Result<Self, ScimError> {
        let object = value.as_object().ok_or_else(|| ScimError::new(Reason::InvalidSyntax, "The body is not an object."))?;
        let mut person = Self {
            user_name: String::new(),
            external_id: None,
            formatted: None,
            given_name: None,
            family_name: None,
            display_name: None,
            emails: Vec::new(),
            active,
            locale: None,
            timezone: None,
        };
        for (name, value) in object {
            let name = without_schema(Resource::User, name);
            match meaning(name) {
                // A client repeats what it has read.
                Meaning::Ignored | Meaning::ReadOnly => {}
                Meaning::Writable(_) if value.is_null() => {}
                Meaning::Writable("userName") => person.user_name = text_within(name, value, MAX_ADDRESS)?,
                Meaning::Writable("externalId") => person.external_id = optional(name, value)?,
                Meaning::Writable("displayName") => person.display_name = optional(name, value)?,
                Meaning::Writable("locale") => person.locale = optional(name, value)?,
                Meaning::Writable("timezone") => person.timezone = optional(name, value)?,
                Meaning::Writable("active") => person.active = boolean(name, value)?,
                Meaning::Writable("name") => person.read_name(value)?,
                Meaning::Writable("emails") => person.emails = emails(value)?,
                Meaning::Writable(_) | Meaning::Unknown => return Err(unknown(name)),
            }
        }
        if person.user_name.is_empty() {
            return Err(ScimError::value("userName is required."));
        }
        Ok(person)
    }

    fn read_name(&mut self, value: &Value) -> Result<(), ScimError> {
        let parts = value.as_object().ok_or_else(|| ScimError::value("name must be an object."))?;
        for (part, value) in parts.iter().filter(|(_, value)| !value.is_null()) {
            match meaning(part) {
                Meaning::Writable("formatted") => self.formatted = optional(part, value)?,
                Meaning::Writable("givenName") => self.given_name = optional(part, value)?,
                Meaning::Writable("familyName") => self.family_name = optional(part, value)?,
                Meaning::Ignored => {}
                Meaning::Writable(_) | Meaning::ReadOnly | Meaning::Unknown => return Err(unknown(part)),
            }
        }
        Ok(())
    }
}

fn unknown(name: &str) -> ScimError {
    ScimError::new(Reason::InvalidSyntax, format!("A User has no attribute {}.", shown(name)))
}

/// A text that shows something, without space around it.
pub(crate) fn text(name: &str, value: &Value) -> Result<String, ScimError> {
    text_within(name, value, MAX_TEXT)
}

fn text_within(name: &str, value: &Value, most: usize) -> Result<String, ScimError> {
    let text = value.as_str().ok_or_else(|| ScimError::value(format!("{name} must be a text.")))?.trim();
    if text.is_empty() || text.chars().count() > most || text.chars().any(char::is_control) {
        return Err(ScimError::value(format!("{name} must have 1 to {most} characters, without control characters.")));
    }
    if is_blank(text) {
        return Err(ScimError::value(format!("{name} shows nothing: it consists of invisible characters. Send a visible text.")));
    }
    Ok(text.to_owned())
}

/// A text; `None` if it is empty or consists of space.
pub(crate) fn optional(name: &str, value: &Value) -> Result<Option<String>, ScimError> {
    let is_blank = value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
    if is_blank { Ok(None) } else { text(name, value).map(Some) }
}

/// Some clients send a boolean as a text.
pub(crate) fn boolean(name: &str, value: &Value) -> Result<bool, ScimError> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(ScimError::value(format!("{name} must be true or false."))),
    }
}

fn email_value(email: &Email) -> Value {
    let mut value = json!({"value": email.value});
    if let Some(kind) = &email.kind {
        set(&mut value, "type", kind.as_str());
    }
    if let Some(primary) = email.primary {
        set(&mut value, "primary", primary);
    }
    value
}

pub(crate) fn too_many_emails() -> ScimError {
    ScimError::value(format!("A user can have at most {MAX_EMAILS} e-mail addresses."))
}

fn emails(value: &Value) -> Result<Vec<Email>, ScimError> {
    let list = match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(_) => vec![value],
        _ => return Err(ScimError::value("emails must be a list.")),
    };
    if list.len() > MAX_EMAILS {
        return Err(too_many_emails());
    }
    let emails = list.into_iter().map(email).collect::<Result<Vec<Email>, ScimError>>()?;
    if emails.iter().filter(|email| email.primary == Some(true)).count() > 1 {
        return Err(ScimError::value("Only one e-mail address can be the primary one."));
    }
    Ok(emails)
}

fn email(value: &Value) -> Result<Email, ScimError> {
    let members = value.as_object().ok_or_else(|| ScimError::value("Each of emails must be an object."))?;
    let mut email = Email { value: String::new(), kind: None, primary: None };
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        match meaning(name) {
            Meaning::Writable("value") => email.value = text_within("emails.value", value, MAX_ADDRESS)?,
            Meaning::Writable("type") => email.kind = optional("emails.type", value)?,
            Meaning::Writable("primary") => email.primary = Some(boolean("emails.primary", value)?),
            Meaning::Ignored => {}
            Meaning::Writable(_) | Meaning::ReadOnly | Meaning::Unknown => return Err(unknown(name)),
        }
    }
    if email.value.len() > MAX_ADDRESS || normalize_email(&email.value).is_err() {
        return Err(ScimError::value("Each of emails needs a valid address as its `value`."));
    }
    Ok(email)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Person {
        Person::read(value, true).unwrap()
    }

    #[test]
    fn a_person_is_read_and_written_without_loss() {
        let body = json!({"userName": "ada", "externalId": "7", "displayName": "Ada B.", "name": {"formatted": "Ada Byron", "givenName": "Ada"},
            "emails": [{"value": "ada@example.com", "type": "work", "primary": true}], "active": false, "locale": "en-GB",
            "timezone": "Europe/London"});
        let person = read(&body);
        assert_eq!(person.to_value(), body);
        assert_eq!((person.name().as_str(), person.address().unwrap().as_str()), ("Ada B.", "ada@example.com"));
        assert_eq!(Person::read(&person.to_value(), true).unwrap(), person);
    }

    #[test]
    fn forms_of_common_clients_are_accepted() {
        let person = read(
            &json!({"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "USERNAME": " Ada@Example.com ", "active": "False",
            "name": {"givenName": "Ada", "familyName": "Byron", "honorificPrefix": "Lady"}, "title": "Countess", "locale": "", "groups": [],
            "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "Engines"}, "password": "secret", "id": "7"}),
        );
        assert_eq!((person.active, person.name().as_str(), person.locale.clone()), (false, "Ada Byron", None));
        assert_eq!(person.address().unwrap(), "ada@example.com");
    }

    #[test]
    fn wrong_values_are_refused() {
        for body in [
            json!({}),
            json!({"userName": ""}),
            json!({"userName": 7}),
            json!({"userName": "a\u{7}b"}),
            json!({"userName": "\u{200b}\u{feff}"}),
            json!({"userName": "a", "displayName": "\u{3164}"}),
            json!({"userName": "a", "name": {"familyName": "\u{202e}\u{2060}"}}),
            json!({"userName": "a", "active": "perhaps"}),
            json!({"userName": "a", "emails": ["a@b"]}),
            json!({"userName": "a", "emails": [{"value": "nobody"}]}),
            json!({"userName": "a", "emails": [{"value": "a@b", "primary": true}, {"value": "c@d", "primary": true}]}),
            json!({"userName": "a", "shoeSize": 4}),
            json!({"userName": "a", "displayName": "x".repeat(201)}),
            json!([]),
        ] {
            assert!(Person::read(&body, true).is_err(), "{body}");
        }
        assert!(read(&json!({"userName": "ada"})).address().is_err());
    }

    #[test]
    fn stored_names_get_the_form_of_the_protocol() {
        let long = "x".repeat(MAX_TEXT - 1);
        let cut = format!("{long} y");
        for (stored, expected) in [
            ("Ada", Some("Ada")),
            (" Ada\u{85}", Some("Ada")),
            ("Ada \t\n", Some("Ada")),
            ("Ada\nByron", Some("Ada Byron")),
            (" \u{85}\n", None),
            ("\u{200b}\u{2060}", None),
            (&*cut, Some(&*long)),
        ] {
            let found = cleaned(Some(stored));
            assert_eq!(found.as_deref(), expected, "{stored:?}");
            assert_eq!(found.map(Value::from).map(|name| optional("displayName", &name).unwrap().unwrap()).as_deref(), expected);
        }
        let person = read(&json!({"userName": "ada", "name": {"givenName": long, "familyName": "Byron"}}));
        assert_eq!(person.name(), long, "a name that is cut does not end with space");
    }

    #[test]
    fn long_addresses_are_names_too() {
        let address = format!("{}@example.com", "a".repeat(MAX_ADDRESS - 12));
        let person = read(&json!({"userName": address, "emails": [{"value": address}]}));
        assert_eq!((person.address().unwrap(), &person.user_name), (address.clone(), &address));
        assert!(Person::read(&json!({"userName": format!("a{address}")}), true).is_err());
    }

    #[test]
    fn the_address_follows_the_user_name() {
        let before = read(&json!({"userName": "a@example.com", "emails": [{"value": "a@example.com", "primary": true}]}));
        let mut after = Person { user_name: "b@example.com".to_owned(), ..before.clone() };
        after.follow_user_name(&before);
        assert_eq!(after.address().unwrap(), "b@example.com");
        let mut named = Person { user_name: "b".to_owned(), ..before.clone() };
        named.follow_user_name(&before);
        assert_eq!(named.address().unwrap(), "a@example.com");
    }
}
