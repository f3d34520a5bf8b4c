//! Changes the settings of a level. The form first shows what the change would do, and saves only what the reader has seen.

use http::Method;
use maud::html;
use serde_json::{Map, Value};

use tenantd_http::problem::Code;

use super::{
    EDIT_PATH,
    impact::{self, Preview, SEEN},
    inputs::Inputs,
    scope::{self, Config, Level},
    values,
};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable},
    },
    form::{Fields, Shown},
    query::Query,
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// The settings that are changed.
struct Editor {
    scope: String,
    config: Config,
    level: Level,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let editor = Editor::read(&visitor).await?;
    let fields = values::fields(&editor.config.effective, &editor.config.own);
    Ok(editor.page(&visitor, Shown { fields: &fields, refusal: None }, None))
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let editor = Editor::read(&visitor).await?;
    let sent = visitor.fields();
    let body = values::body(&sent);
    let wanted = Value::Object(body.clone()).to_string();
    let is_seen = sent.get(SEEN) == wanted;
    let wants_to_save = sent.get("do") == "save";
    let outcome = if wants_to_save && is_seen {
        editor.save(&visitor, body).await
    } else {
        editor.preview(&visitor, &sent, body, wants_to_save).await
    };
    match outcome {
        Err(refusal) if is_correctable(&refusal) => {
            Ok(editor.page(&visitor, Shown { fields: &sent, refusal: Some(&refusal) }, None))
        }
        outcome => outcome,
    }
}

impl Editor {
    async fn read(visitor: &Visitor<'_>) -> Result<Self, Refusal> {
        let scope = scope::named(visitor);
        let config = scope::config(visitor, &scope).await?;
        let level = scope::level(visitor, &scope).await?;
        Ok(Self { scope, config, level })
    }

    async fn preview(
        &self,
        visitor: &Visitor<'_>,
        sent: &Fields,
        body: Map<String, Value>,
        is_changed: bool,
    ) -> Result<Reply, Refusal> {
        let body = Value::Object(body);
        let target = format!("{}&dry_run=true", scope::target(&self.scope));
        let answer = visitor.act(Method::PUT, target, Some(body.clone())).await?;
        let after: Config = parsed(answer.body)?;
        let ids = after.impact.as_ref().map(|impact| impact.newly_breaching_device_ids.as_slice()).unwrap_or_default();
        let breaching = impact::devices(visitor, ids).await?;
        let ignored = values::ignored(sent, &values::fields(&self.config.effective, &self.config.own));
        let preview = Preview { after, ignored, is_changed, seen: body.to_string(), breaching };
        Ok(self.page(visitor, Shown { fields: sent, refusal: None }, Some(&preview)))
    }

    async fn save(&self, visitor: &Visitor<'_>, body: Map<String, Value>) -> Result<Reply, Refusal> {
        let saved = Reply::SeeOther(scope::path(&self.scope));
        // The same form was sent before.
        if self.config.own == body {
            return Ok(saved);
        }
        match visitor.act(Method::PUT, scope::target(&self.scope), Some(Value::Object(body.clone()))).await {
            Ok(_) => Ok(saved),
            Err(refusal) if refusal.is(Code::VersionConflict) => {
                let now = scope::config(visitor, &self.scope).await?;
                if now.own == body { Ok(saved) } else { Err(refusal) }
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn page(&self, visitor: &Visitor<'_>, shown: Shown<'_>, preview: Option<&Preview>) -> Reply {
        let title = format!("Change the backup settings of {}", self.level.name());
        let body = Value::Object(values::body(shown.fields));
        let form = RecordForm {
            title,
            below: "What is not set here is inherited from the level above.",
            trail: self.level.trail(),
            action: Query::default().with("scope", &self.scope).at(EDIT_PATH),
            cancel: scope::path(&self.scope),
            button: "Show the impact",
            version: Some(self.config.version),
            curl: curl(visitor.visit.base_url, "PUT", &scope::target(&self.scope), Some(&body)),
        };
        let inputs = Inputs { shown, config: &self.config, level: &self.level };
        let inputs = html! {
            @if let Some(preview) = preview { (preview.card(&self.config)) }
            (inputs.render())
        };
        form.page(visitor, shown, &inputs)
    }
}
