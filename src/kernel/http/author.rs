//! Who did something, as every record of the API shows it.

use poem_openapi::Object;
use serde::Serialize;

use tenantd_store::events::{Actor, ActorKind};

/// Who did something.
#[derive(Clone, Debug, Object, Serialize)]
pub struct Author {
    /// `user`, `api_key`, `workflow`, `system` or `agent`.
    pub kind: String,
    pub id: String,
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
