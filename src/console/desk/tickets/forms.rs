//! The forms of the page of a ticket: which of them was sent, and how their refusals name fields.

use tenantd_http::problem::Code;

use crate::{
    form::Fields,
    refusal::{FieldRefusal, Refusal},
};

/// A form of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panel {
    /// The buttons that only change the status.
    Status,
    Resolve,
    Merge,
    Reply,
    Details,
    Devices,
    Time,
}

/// A form that was sent and refused.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) panel: Panel,
    pub(super) fields: Fields,
    pub(super) refusal: Refusal,
}

/// Refuses a field before the API is asked.
pub(crate) fn wrong(field: &str, message: &str) -> Refusal {
    let mut refusal = Refusal::new(Code::ValidationFailed, message);
    refusal.errors.push(FieldRefusal::at(field, message));
    refusal
}

/// Names the places in a body after the fields of the form that they come from.
pub(crate) fn renamed(mut refusal: Refusal, names: &[(&str, &str)]) -> Refusal {
    for error in &mut refusal.errors {
        let pointer = error.pointer.clone().unwrap_or_default();
        let is_at = |place: &str| pointer.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if let Some((_, field)) = names.iter().find(|(place, _)| is_at(place)) {
            error.pointer = Some(format!("/{field}"));
        }
    }
    refusal
}

/// Minutes of work in a field; `None` if it is empty.
pub(super) fn minutes(fields: &Fields, name: &str) -> Result<Option<u32>, Refusal> {
    let text = fields.get(name);
    if text.is_empty() {
        return Ok(None);
    }
    let minutes = text.parse::<u32>().ok().filter(|minutes| (1..=1440).contains(minutes));
    minutes.map(Some).ok_or_else(|| wrong(name, "Enter whole minutes from 1 to 1440."))
}

/// A text of several lines as it was typed. Browsers send line breaks as two characters.
pub(crate) fn lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_whole_and_at_most_a_day() {
        let of = |text: &str| minutes(&Fields::new(&[("spent".to_owned(), text.to_owned())]), "spent");
        assert_eq!((of("").unwrap(), of("15").unwrap()), (None, Some(15)));
        for wrong in ["0", "1441", "1.5", "x"] {
            let refusal = of(wrong).unwrap_err();
            assert!(refusal.about("spent").is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_place_in_the_body_becomes_the_field_of_the_form() {
        let refusal = renamed(wrong("resolution/summary", "is required"), &[("/resolution/summary", "summary")]);
        assert_eq!(refusal.about("summary"), Some("is required"));
        let other = renamed(wrong("resolutions", "no"), &[("/resolution", "summary")]);
        assert_eq!(other.about("resolutions"), Some("no"));
    }
}
