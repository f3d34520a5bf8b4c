//! What a user stores for the console: preferences, and saved views of lists.

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};

use tenantd_base::{change::Change, clock::Timestamp, fault::Fault, id::ViewId, vocabulary::vocabulary, zones};

use super::super::error::AuthError;

vocabulary! {
    #[derive(Default)]
    Theme:
    #[default] System "system", Light "light", Dark "dark",
}

vocabulary! {
    ViewArea:
    Tickets "tickets", Devices "devices", Organizations "organizations",
}

/// The preferences of a user. A user who has set none has the default ones, with version 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preferences {
    /// The IANA name of a time zone.
    pub time_zone: Option<String>,
    pub theme: Theme,
    pub version: u64,
}

/// A change of preferences.
#[derive(Clone, Debug)]
pub struct PreferencesChange {
    pub time_zone: Change<String>,
    pub theme: Option<Theme>,
}

pub fn check_time_zone(name: &str) -> Result<(), Fault> {
    zones::find(name).map(drop).map_err(|unknown| {
        let fault = Fault::new("/time_zone", "unknown_time_zone", unknown.to_string());
        fault.with_suggestion(unknown.suggestion)
    })
}

/// How many views a user can save.
pub const MAX_VIEWS: usize = 100;
/// The version of every saved view, because a view never changes.
pub const VIEW_VERSION: u64 = 1;
const MAX_QUERY: usize = 2000;

/// A query of a list that a user has saved under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedView {
    #[serde(skip)]
    pub id: ViewId,
    pub area: ViewArea,
    pub name: String,
    /// The query string of the list, as the user gave it.
    pub query: String,
    pub created_at: Timestamp,
}

/// A view to save.
#[derive(Clone, Debug)]
pub struct NewView {
    pub area: ViewArea,
    pub name: String,
    pub query: String,
}

/// Checks that a user with these views can save another one. Names are unique within an area, ignoring case.
pub fn check_room(views: &[SavedView], area: ViewArea, name: &str) -> Result<(), AuthError> {
    let name = name.to_lowercase();
    if views.iter().any(|view| view.area == area && view.name.to_lowercase() == name) {
        return Err(AuthError::ViewNameTaken);
    }
    if views.len() >= MAX_VIEWS {
        return Err(AuthError::TooManyViews { most: MAX_VIEWS });
    }
    Ok(())
}

/// Checks that a text is a query string: parameters such as `status=open`, joined with `&`, in percent-encoding.
pub fn check_query(query: &str) -> Result<(), Fault> {
    let wrong = |message: &str| Err(Fault::new("/query", "wrong_form", message));
    if query.len() > MAX_QUERY {
        return wrong("must have at most 2000 bytes");
    }
    if query.starts_with('?') {
        return wrong("omit the question mark: a query string starts with its first parameter, such as status=open");
    }
    if !query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return wrong("must be a query string such as status=open&q=two%20words: encode spaces, # and letters outside of ASCII");
    }
    if query.split('&').any(|parameter| parameter.starts_with('=')) {
        return wrong("each parameter needs a name before the =");
    }
    if !is_decodable(query) {
        return wrong("after %, there must be two hexadecimal digits, and the result must be UTF-8");
    }
    Ok(())
}

/// Whether the percent-encoding of a text is complete and stands for UTF-8.
fn is_decodable(text: &str) -> bool {
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            decoded.push(*first);
            continue;
        }
        let Some((digits, tail)) = tail.split_first_chunk::<2>() else { return false };
        let Ok(byte) = HEXLOWER_PERMISSIVE.decode(digits) else { return false };
        decoded.extend(byte);
        rest = tail;
    }
    std::str::from_utf8(&decoded).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_list_of_encoded_parameters() {
        for good in
            ["", "status=open", "status=open&sort=-priority", "q=two+words", "q=M%C3%BCller", "tag[a]=1", "flag", "a=b=c", "a=&"]
        {
            assert_eq!(check_query(good), Ok(()), "{good}");
        }
        let long = format!("q={}", "x".repeat(MAX_QUERY));
        for bad in
            ["?status=open", "a b", "a=1#top", "q=Müller", "=open", "a=1&=2", "q=%", "q=%4", "q=%zz", "q=%ff", "a\n", long.as_str()]
        {
            assert!(check_query(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_unique_within_its_area() {
        let view = |number: u8, area, name: &str| SavedView {
            id: ViewId::from_bytes([number; 16]),
            area,
            name: name.to_owned(),
            query: String::new(),
            created_at: Timestamp::EPOCH,
        };
        let mut views = vec![view(0, ViewArea::Tickets, "Urgent")];
        assert!(matches!(check_room(&views, ViewArea::Tickets, "urgent"), Err(AuthError::ViewNameTaken)));
        assert!(check_room(&views, ViewArea::Devices, "Urgent").is_ok());
        views.extend((1..100).map(|number| view(number, ViewArea::Devices, &number.to_string())));
        assert!(matches!(check_room(&views, ViewArea::Tickets, "new"), Err(AuthError::TooManyViews { most: 100 })));
    }

    #[test]
    fn an_unknown_time_zone_has_a_suggestion() {
        assert_eq!(check_time_zone("Europe/Berlin"), Ok(()));
        assert_eq!(check_time_zone("Berlin").unwrap_err().suggestion.as_deref(), Some("Europe/Berlin"));
    }
}
