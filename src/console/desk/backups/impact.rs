//! What a change of the settings would do, before it is saved.

use futures_util::future::try_join_all;
use maud::{Markup, html};

use super::{
    scope::{Config, Impact},
    settings::{SETTINGS, lines},
};
use crate::{
    components::{card, facts},
    desk::{devices::DEVICES_API, organizations::counted, records::Named},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

/// The field with the body whose impact the reader has seen.
pub(super) const SEEN: &str = "seen";
/// The most devices that the page names.
const MOST_NAMED: usize = 10;

/// A change that was checked and not applied.
pub(super) struct Preview {
    /// What it leads to.
    pub(super) after: Config,
    /// The settings that were changed in the form, but that the form does not set.
    pub(super) ignored: Vec<&'static str>,
    /// Whether the reader changed the form after they had seen the impact.
    pub(super) is_changed: bool,
    /// The body that was checked. Only this is saved.
    pub(super) seen: String,
    /// The first devices that would breach their objective, with their names if the reader may see them.
    pub(super) breaching: Vec<Named>,
}

/// The devices with these IDs.
pub(super) async fn devices(visitor: &Visitor<'_>, ids: &[String]) -> Result<Vec<Named>, Refusal> {
    let find = |id: String| async move {
        let found = visitor.read_if_allowed::<Named>(format!("{DEVICES_API}/{}", segment(&id))).await?;
        Ok::<Named, Refusal>(found.unwrap_or_else(|| Named { name: id.clone(), id }))
    };
    try_join_all(ids.iter().take(MOST_NAMED).cloned().map(find)).await
}

impl Preview {
    pub(super) fn card(&self, before: &Config) -> Markup {
        let body = html! {
            @if self.is_changed { p { strong { "The form changed after you looked at the impact. This is the impact now." } } }
            @if !self.ignored.is_empty() {
                p.note {
                    "You changed " (self.ignored.join(", ")) ", but did not choose to set it here. It stays inherited."
                }
            }
            @if let Some(impact) = &self.after.impact { (impact.show(&self.breaching)) }
            (self.differences(before))
            input type="hidden" name=(SEEN) value=(self.seen);
            div.actions { button.primary name="do" value="save" { "Save" } }
        };
        card("Impact", &body)
    }

    /// The settings that would apply instead of those that apply now.
    fn differences(&self, before: &Config) -> Markup {
        let text = |config: &Config, name: &str| config.effective.text(name);
        let changed: Vec<(&str, &str)> = SETTINGS
            .iter()
            .filter(|(name, _)| text(before, name) != text(&self.after, name))
            .map(|(name, title)| (*name, *title))
            .collect();
        html! {
            @if changed.is_empty() { p.muted { "The settings that apply stay as they are." } } @else {
                div.scroll tabindex="0" role="group" aria-label="Changed settings" {
                    table {
                        thead { tr { @for head in ["Setting", "Now", "After the change"] { th scope="col" { (head) } } } }
                        tbody {
                            @for (name, title) in &changed {
                                tr {
                                    th scope="row" { (title) }
                                    td { (lines(&text(before, name))) }
                                    td { (lines(&text(&self.after, name))) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Impact {
    fn show(&self, breaching: &[Named]) -> Markup {
        let named = u64::try_from(breaching.len()).unwrap_or_default();
        let devices = |count: u64| Some(html! { (counted(count, "device", "devices")) });
        html! {
            (facts(&[
                ("Affected", devices(self.devices_affected)),
                ("Newly too old", devices(self.newly_breaching)),
                ("Newly missed", devices(self.newly_missed)),
                ("Expiring", Some(html! { (counted(self.restore_points_expiring, "restore point", "restore points")) })),
            ]))
            @if !breaching.is_empty() {
                h3 { "Restore points that would be too old" }
                ul.lines { @for device in breaching { li { (device.link("devices")) } } }
                @if self.newly_breaching > named { p.muted { "And " (counted(self.newly_breaching - named, "other device", "other devices")) "." } }
            }
        }
    }
}
