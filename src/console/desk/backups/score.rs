//! The score of an organization, explained: the points of each part, what they are computed from, and what limits the sum.

use maud::{Markup, html};

use super::record::{Explanation, Row};
use crate::{
    components::{badge, bar, words},
    desk::organizations::{SCORE_PARTS, cap_words, counted, part_tone, state_tone},
};

/// The points of each part in one line, such as `Coverage 23 of 25`.
pub(super) fn summary(row: &Row) -> Markup {
    let Some(parts) = &row.score_parts else {
        return html! { span.muted { "No score: no device must be backed up, or there was never a job." } };
    };
    let names = SCORE_PARTS.iter().zip(parts.points());
    let line: Vec<String> = names.map(|((name, most, _), points)| format!("{name} {points} of {most}")).collect();
    html! {
        small { (line.join(" · ")) }
        @for cap in &row.caps { br; small { "At most " (cap.most) ": " (cap_words(&cap.code)) } }
    }
}

/// The whole explanation.
pub(super) fn explained(row: &Row) -> Markup {
    html! {
        p.score {
            @if let Some(score) = row.score { strong { (score) } " of 100 " }
            (badge(state_tone(&row.state), &words(&row.state)))
        }
        @if row.score_parts.is_none() {
            p.muted { "There is no score: no device must be backed up, or there was never a backup job." }
        }
        (parts(row))
        @if !row.caps.is_empty() {
            h3 { "What limits the score" }
            ul.lines {
                @for cap in &row.caps { li.row { span { (cap_words(&cap.code)) } strong { "at most " (cap.most) } } }
            }
        }
        @if let (Some(explanation), Some(score)) = (&row.explanation, row.score) {
            p {
                "The parts add up to " (explanation.sum) ". "
                @if score < explanation.sum { "The lowest limit makes it " (score) "." } @else { "Nothing limits the score." }
            }
        }
    }
}

fn parts(row: &Row) -> Markup {
    let Some(parts) = &row.score_parts else { return html! {} };
    let reasons = row.explanation.as_ref().map(reasons).unwrap_or_default();
    html! {
        dl.facts-list {
            @for (((name, most, purpose), points), reason) in SCORE_PARTS.iter().zip(parts.points()).zip(&reasons) {
                @let percent = points * 100 / most;
                div {
                    dt { (name) " " small { (purpose) } }
                    dd { (bar(percent, part_tone(percent), &format!("{points} of {most} points"))) p.hint { (reason) } }
                }
            }
        }
    }
}

/// What the points of each part come from, in the order of the parts.
fn reasons(explanation: &Explanation) -> [String; 5] {
    let test = match explanation.restore_test_age_days {
        Some(days) => format!("The last restore test was {} ago.", counted(days, "day", "days")),
        None => "There was no restore test.".to_owned(),
    };
    let known = |is_so: bool, what: &str| format!("{} {what} copy", if is_so { "an" } else { "no" });
    [
        format!("{} of {} are protected.", explanation.protected, counted(explanation.eligible, "device", "devices")),
        format!(
            "{} of {} shares: a device within its objective gives 2, one at risk 1. Servers give three times as many.",
            explanation.recency_credit,
            explanation.recency_weight.saturating_mul(2)
        ),
        format!(
            "{} of {} left a restore point. Missed jobs count too.",
            explanation.jobs_good_7d,
            counted(explanation.jobs_all_7d, "job", "jobs")
        ),
        format!("{test} Tests are due every {}.", counted(explanation.restore_test_every_days, "day", "days")),
        format!(
            "{} on {}, {}, {}. The original data counts as a copy.",
            counted(explanation.copies, "copy", "copies"),
            counted(explanation.media, "kind of media", "kinds of media"),
            known(explanation.offsite, "offsite"),
            known(explanation.immutable, "immutable"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_part_has_its_reason() {
        let explanation: Explanation = serde_json::from_value(json!({
            "protected": 18, "eligible": 19, "recency_credit": 38, "recency_weight": 23, "jobs_good_7d": 98, "jobs_all_7d": 103,
            "restore_test_every_days": 30, "copies": 1, "media": 1, "offsite": false, "immutable": true, "sum": 91
        }))
        .unwrap();
        let reasons = reasons(&explanation);
        assert_eq!(reasons[0], "18 of 19 devices are protected.");
        assert!(reasons[1].starts_with("38 of 46 shares"));
        assert_eq!(reasons[3], "There was no restore test. Tests are due every 30 days.");
        assert!(reasons[4].starts_with("1 copy on 1 kind of media, no offsite copy, an immutable copy."));
    }
}
