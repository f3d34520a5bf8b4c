//! Time zones by their IANA names, and suggestions for unknown names.

use std::fmt;

use jiff::tz::TimeZone;

use crate::vocabulary::nearest;

/// The error for a name that is not a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownZone {
    pub name: String,
    /// The zone of the city with this name, or the zone with the closest name.
    pub suggestion: Option<String>,
}

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not an IANA time zone", self.name)?;
        match &self.suggestion {
            Some(zone) => write!(f, "; did you mean {zone}?"),
            None => f.write_str(" such as Europe/Berlin"),
        }
    }
}

pub fn find(name: &str) -> Result<TimeZone, UnknownZone> {
    TimeZone::get(name).map_err(|_| UnknownZone { name: name.to_owned(), suggestion: suggestion(name) })
}

fn suggestion(name: &str) -> Option<String> {
    let known: Vec<String> = jiff::tz::db().available().map(|zone| zone.as_str().to_owned()).collect();
    let city = name.trim().replace([' ', '-'], "_");
    let of_city = known.iter().find(|zone| zone.rsplit_once('/').is_some_and(|(_, known)| known.eq_ignore_ascii_case(&city)));
    of_city.cloned().or_else(|| nearest(name, known.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_suggested_by_its_city_or_a_close_name() {
        let suggested = |name: &str| find(name).unwrap_err().suggestion;
        assert_eq!(suggested("Berlin").as_deref(), Some("Europe/Berlin"));
        assert_eq!(suggested("london").as_deref(), Some("Europe/London"));
        assert_eq!(suggested("New York").as_deref(), Some("America/New_York"));
        assert_eq!(suggested("Europe/Berlim").as_deref(), Some("Europe/Berlin"));
        assert_eq!(suggested("Middle Earth"), None);
        assert!(find("Europe/Berlin").is_ok());
        assert_eq!(find("Berlin").unwrap_err().to_string(), "Berlin is not an IANA time zone; did you mean Europe/Berlin?");
    }
}
