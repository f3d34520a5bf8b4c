//! The clocks of a service level, as bars with the time that is left.

use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    components::{Tone, badge, bar},
    moment::Clock,
};

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Sla {
    pub(crate) state: String,
    pub(crate) first_response: Option<Target>,
    pub(crate) resolution: Option<Target>,
    #[serde(default)]
    pub(crate) paused_minutes: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    due_at: Option<String>,
    met_at: Option<String>,
    #[serde(default)]
    breached: bool,
}

impl Target {
    /// The clock of a target that began at `start`.
    pub(crate) fn show(&self, start: &str, is_paused: bool, clock: &Clock) -> Markup {
        if let Some(met_at) = &self.met_at {
            let (tone, word) = if self.breached { (Tone::Bad, "late") } else { (Tone::Good, "met") };
            return html! { (badge(tone, word)) " " (clock.relative(met_at)) };
        }
        // A clock that is paused has a due time only if it is late already.
        let Some(due_at) = &self.due_at else {
            return if is_paused {
                badge(Tone::Neutral, "paused")
            } else {
                html! { span.muted { "–" } }
            };
        };
        let percent = clock.passed(start, due_at);
        let (left, is_late) = clock.left(due_at).unwrap_or_default();
        let tone = match percent {
            _ if is_late || self.breached => Tone::Bad,
            75.. => Tone::Warn,
            _ => Tone::Good,
        };
        html! { span title=[clock.exact_text(due_at)] { (bar(percent, tone, &left)) } }
    }
}

/// The clock that ends next: that of the first response, then that of the resolution.
pub(crate) fn service_level(sla: &Sla, created_at: &str, clock: &Clock) -> Markup {
    if matches!(sla.state.as_str(), "none" | "") {
        return html! { span.muted { "–" } };
    }
    let open = sla.first_response.as_ref().filter(|target| target.met_at.is_none());
    let next = open.or(sla.resolution.as_ref());
    next.map_or_else(|| html! { span.muted { "–" } }, |target| target.show(created_at, sla.state == "paused", clock))
}
