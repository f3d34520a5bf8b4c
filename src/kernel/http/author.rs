//! The author of a change, as every record of the API shows it.

use poem_openapi::Object;
use serde::Serialize;

use tenantd_store::events::{Actor, ActorKind};

/// The person or program that made a change.
#[derive(Clone, Debug, Object, Serialize)]
pub struct Author {
    /// The kind of author: `user`, `api_key`, `workflow`, `system` or `agent`.
    pub kind: String,
    /// The id of the author.
    pub id: String,
    /// The name of the author at the time of the change.
    pub name: String,
}

impl From<Actor> for Author {
    fn from(actor: Actor) -> Self {
        let kind = match actor.kind {
            ActorKind::User => "user",
            ActorKind::ApiKey => "api_key",
            ActorKind::Workflow => "workflow",
            ActorKind::System => "system",
            ActorKind::Agent => "agent",
        };
        Self { kind: kind.to_owned(), id: actor.id, name: actor.name }
    }
}
