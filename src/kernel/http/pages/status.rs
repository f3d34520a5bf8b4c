//! Whether the server is ready, and how its parts are doing: from real signals only.

use http::StatusCode;
use poem::Response;
use serde_json::{Value, json};

use super::{
    PageSources, html, json_response,
    layout::{Html, escape},
};

/// A task that failed this often in a row makes its part degraded.
const FAILURES_UNTIL_DEGRADED: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Operational,
    Degraded,
    Down,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Operational => "operational",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

struct Component {
    name: String,
    state: State,
    detail: String,
}

fn components(sources: &PageSources) -> Vec<Component> {
    let storage = match sources.store.failure() {
        None => Component { name: "storage".to_owned(), state: State::Operational, detail: "takes reads and changes".to_owned() },
        Some(_) => {
            Component { name: "storage".to_owned(), state: State::Down, detail: "takes no changes; a restart is due".to_owned() }
        }
    };
    let api = Component { name: "api".to_owned(), state: State::Operational, detail: "answers requests".to_owned() };
    let tasks = sources.board.statuses().into_iter().map(|(name, status)| {
        let failing = status.consecutive_failures >= FAILURES_UNTIL_DEGRADED;
        let failed = failing.then(|| format!("failed {} times in a row", status.consecutive_failures));
        let trouble = failed.or(status.concern);
        let state = if trouble.is_some() { State::Degraded } else { State::Operational };
        Component { name: name.replace('_', " "), state, detail: trouble.unwrap_or_else(|| "works".to_owned()) }
    });
    [api, storage].into_iter().chain(tasks).collect()
}

pub(super) fn ready(sources: &PageSources) -> Response {
    let failing: Vec<Value> = components(sources)
        .iter()
        .filter(|component| component.state == State::Down)
        .map(|component| json!(component.name))
        .collect();
    if failing.is_empty() {
        return json_response(StatusCode::OK, &json!({"status": "ready"}));
    }
    json_response(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "not_ready", "failing": failing}))
}

pub(super) fn page(sources: &PageSources, as_json: bool) -> Response {
    let components = components(sources);
    let worst = |state: State| components.iter().any(|component| component.state == state);
    let overall = if worst(State::Down) {
        State::Down
    } else if worst(State::Degraded) {
        State::Degraded
    } else {
        State::Operational
    };
    let uptime = sources.clock.now().since(sources.started_at).as_secs();
    if as_json {
        let components: Vec<Value> = components
            .iter()
            .map(|component| json!({"name": component.name, "state": component.state.name(), "detail": component.detail}))
            .collect();
        let body = json!({
            "state": overall.name(),
            "version": env!("CARGO_PKG_VERSION"),
            "started_at": sources.started_at,
            "uptime_seconds": uptime,
            "components": components,
        });
        return json_response(StatusCode::OK, &body);
    }
    let mut page = Html::new("Status");
    page.paragraph(&format!("tenantd {}, up since {}.", env!("CARGO_PKG_VERSION"), sources.started_at));
    page.raw(
        "<table><thead><tr><th scope=\"col\">part</th><th scope=\"col\">state</th><th scope=\"col\"></th></tr></thead><tbody>",
    );
    for component in &components {
        let class = if component.state == State::Operational { "ok" } else { "bad" };
        page.raw(&format!(
            "<tr><td>{}</td><td class=\"{class}\">{}</td><td>{}</td></tr>",
            escape(&component.name),
            component.state.name(),
            escape(&component.detail)
        ));
    }
    page.raw("</tbody></table>");
    html(page.finish())
}
