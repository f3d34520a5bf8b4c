//! The form that replaces the service levels.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::{super::SETTINGS, API, DAYS, PATH, PRIORITIES, Policy, TITLE, hours_words, policy};
use crate::{
    components::{curl, words},
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable, trail},
        tickets::renamed,
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

const HOURS_HINT: &str = "Such as 09:00-12:00, 13:00-17:00. Empty: a day off.";

pub(crate) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let policy = policy(&visitor).await?;
    Ok(page(&visitor, policy.version, &fields_of(&policy), None))
}

pub(crate) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let policy = policy(&visitor).await?;
    let fields = visitor.fields();
    match visitor.act(Method::PUT, API, Some(body(&fields))).await {
        Ok(_) => Ok(Reply::SeeOther(format!("{PATH}?saved=true"))),
        Err(refusal) if is_correctable(&refusal) => Ok(page(&visitor, policy.version, &fields, Some(&by_field(refusal)))),
        Err(refusal) => Err(refusal),
    }
}

fn page(visitor: &Visitor<'_>, version: u64, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let form = RecordForm {
        title: "Edit service levels".to_owned(),
        below: "Applies to new tickets, and to clocks that start from now on. Existing due times do not change.",
        trail: trail(&[(SETTINGS, "Settings"), (PATH, TITLE)]),
        action: format!("{PATH}/edit"),
        cancel: PATH.to_owned(),
        button: "Save",
        version: Some(version),
        curl: curl(visitor.visit.base_url, "PUT", API, Some(&body(fields))),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        h2 { "Targets" }
        @for priority in PRIORITIES { (target(shown, priority)) }
        h2 { "Working hours" }
        (shown.field("time_zone", "Time zone", Control::Input("text"), "An IANA name such as Europe/Berlin.", true))
        @for day in DAYS { (shown.field(day, &words(day), Control::Input("text"), HOURS_HINT, false)) }
        (shown.field("holidays", "Holidays", Control::Text { rows: 6 }, "Days without work, one on each line, such as 2026-12-25.", false))
    };
    form.page(visitor, shown, &inputs)
}

fn target(shown: Shown<'_>, priority: &str) -> Markup {
    let name = |field: &str| format!("{priority}_{field}");
    html! {
        fieldset.choices {
            legend { (words(priority)) }
            (shown.field(&name("first_response_minutes"), "First response in minutes", Control::Input("number"), "", true))
            (shown.field(&name("resolution_minutes"), "Resolution in minutes", Control::Input("number"), "", true))
            label.check {
                input type="checkbox" name=(name("round_the_clock")) value="yes" checked[shown.fields.has(&name("round_the_clock"))];
                " Round the clock, not only in working hours"
            }
        }
    }
}

fn fields_of(policy: &Policy) -> Fields {
    let mut fields = Fields::default();
    fields.set("time_zone", policy.time_zone.clone());
    fields.set("holidays", policy.holidays.join("\n"));
    for day in DAYS {
        fields.set(day, hours_words(policy.hours_of(day)).replace('–', "-"));
    }
    for (priority, target) in &policy.targets {
        fields.set(&format!("{priority}_first_response_minutes"), target.first_response_minutes.to_string());
        fields.set(&format!("{priority}_resolution_minutes"), target.resolution_minutes.to_string());
        if target.round_the_clock {
            fields.set(&format!("{priority}_round_the_clock"), "yes");
        }
    }
    fields
}

/// The body of the request. What is no number or no time goes to the API as it was typed, and the API says what is wrong.
fn body(fields: &Fields) -> Value {
    let hours: Map<String, Value> = DAYS.iter().map(|day| ((*day).to_owned(), spans(fields.get(day)))).collect();
    let targets: Map<String, Value> =
        PRIORITIES.iter().map(|priority| ((*priority).to_owned(), wanted(fields, priority))).collect();
    let holidays: Vec<&str> = fields.get("holidays").split_whitespace().collect();
    json!({"time_zone": fields.get("time_zone"), "hours": hours, "holidays": holidays, "targets": targets})
}

fn wanted(fields: &Fields, priority: &str) -> Value {
    let number = |field: &str| {
        let text = fields.get(&format!("{priority}_{field}"));
        text.parse::<u64>().map_or_else(|_| Value::from(text), Value::from)
    };
    json!({
        "first_response_minutes": number("first_response_minutes"),
        "resolution_minutes": number("resolution_minutes"),
        "round_the_clock": fields.has(&format!("{priority}_round_the_clock")),
    })
}

/// The spans of a text such as `09:00-12:00, 13:00-17:00`.
fn spans(text: &str) -> Value {
    let span = |text: &str| {
        let (start, end) = text.split_once(['-', '–']).unwrap_or((text, ""));
        json!({"start": time(start), "end": time(end)})
    };
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(span).collect()
}

/// People write `9:00`, the API `09:00`.
fn time(text: &str) -> String {
    let text = text.trim();
    if text.find(':') == Some(1) { format!("0{text}") } else { text.to_owned() }
}

/// Names the places in the body after the fields of the form.
fn by_field(refusal: Refusal) -> Refusal {
    let days = DAYS.iter().map(|day| (format!("/hours/{day}"), (*day).to_owned()));
    let minutes = PRIORITIES.iter().flat_map(|priority| {
        ["first_response_minutes", "resolution_minutes"]
            .map(|field| (format!("/targets/{priority}/{field}"), format!("{priority}_{field}")))
    });
    let names: Vec<(String, String)> = days.chain(minutes).chain([("/hours".to_owned(), "monday".to_owned())]).collect();
    let names: Vec<(&str, &str)> = names.iter().map(|(place, field)| (place.as_str(), field.as_str())).collect();
    renamed(refusal, &names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_policy_becomes_the_same_policy() {
        let day = json!([{"start": "09:00", "end": "12:00"}, {"start": "13:00", "end": "24:00"}]);
        let hours: Map<String, Value> =
            DAYS.iter().map(|name| ((*name).to_owned(), if *name == "sunday" { json!([]) } else { day.clone() })).collect();
        let target =
            |round_the_clock| json!({"first_response_minutes": 15, "resolution_minutes": 240, "round_the_clock": round_the_clock});
        let sent = json!({
            "time_zone": "Europe/Berlin", "hours": hours, "holidays": ["2026-12-25", "2026-12-26"],
            "targets": {"critical": target(true), "high": target(false), "medium": target(false), "low": target(false)},
        });
        let mut record = sent.clone();
        record["version"] = 3.into();
        let policy: Policy = serde_json::from_value(record).unwrap();
        assert_eq!(body(&fields_of(&policy)), sent);
    }

    #[test]
    fn what_was_typed_goes_to_the_api() {
        assert_eq!(spans(" 9:00 - 17:00 ,"), json!([{"start": "09:00", "end": "17:00"}]));
        assert_eq!(spans("all day"), json!([{"start": "all day", "end": ""}]));
        let mut fields = Fields::default();
        fields.set("high_first_response_minutes", "soon");
        assert_eq!(body(&fields)["targets"]["high"]["first_response_minutes"], json!("soon"));
    }

    #[test]
    fn a_fault_is_shown_at_its_field() {
        let refusal: Refusal = serde_json::from_value(json!({"errors": [
            {"pointer": "/hours/friday/0/start", "message": "wrong form"},
            {"pointer": "/targets/low/resolution_minutes", "message": "too small"},
        ]}))
        .unwrap();
        let refusal = by_field(refusal);
        assert_eq!(refusal.about("friday"), Some("wrong form"));
        assert_eq!(refusal.about("low_resolution_minutes"), Some("too small"));
    }
}
