//! `/api/auth/views`: queries of lists that the signed-in user has saved for the console.

use poem_openapi::{Object, OpenApi, param::Path};
use serde::Serialize;
use serde_json::value::to_raw_value;

use tenantd_base::{clock::Timestamp, id::ViewId};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient},
    need::{Allowed, SignedIn},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::Problem,
    reply::{Created, Empty, Listed},
    shape::Shape,
    wire::word_type,
};
use tenantd_store::{
    Key, Store,
    events::{Describe, Described},
};

use super::{
    super::{
        error::AuthError,
        model::{self, NewView, VIEW_VERSION, ViewArea, check_query},
        preferences::{create_view, delete_view},
        repo::preferences::views_of,
    },
    preferences::person,
    session::Area,
};

word_type! {
    ViewArea, "ViewArea", "The list that a saved view shows.";
}

/// A query of a list that a user has saved under a name.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct SavedView {
    /// The id of the view.
    id: ViewId,
    /// The list that the view shows.
    area: ViewArea,
    /// The name of the view, unique among the views of the user in the same area.
    name: String,
    /// The query string of the list, exactly as it was saved.
    query: String,
    /// When the view was saved.
    created_at: Timestamp,
}

impl From<model::SavedView> for SavedView {
    fn from(view: model::SavedView) -> Self {
        let model::SavedView { id, area, name, query, created_at } = view;
        Self { id, area, name, query, created_at }
    }
}

impl Describe for model::SavedView {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&SavedView::from(self.clone()))
    }
}

/// A view to save.
#[derive(Debug, Object)]
#[oai(example)]
pub(super) struct CreateView {
    /// The list that the view shows.
    area: ViewArea,
    /// The name of the view. It must be unique among your views in the same area, ignoring case.
    #[oai(validator(min_length = 1, max_length = 60))]
    name: String,
    /// The query string of the list without the question mark, such as `status=open&sort=-priority`. At most 2000 bytes, in
    /// percent-encoding. tenantd does not check whether the list knows the parameters.
    #[oai(validator(max_length = 2000))]
    query: String,
}

impl TryFrom<CreateView> for NewView {
    type Error = AuthError;

    fn try_from(body: CreateView) -> Result<Self, AuthError> {
        let CreateView { area, name, query } = body;
        check_query(&query).map_err(|fault| AuthError::Invalid(vec![fault]))?;
        Ok(Self { area, name, query })
    }
}

/// The limits for the fields of a stored view.
pub(crate) fn view_fields() -> Result<Shape, String> {
    Shape::fields::<CreateView>(&["area", "name", "query"])
}

#[derive(Debug, Object)]
struct ListViews {
    /// Returns only views of this list.
    area: Option<ViewArea>,
    #[oai(flatten)]
    page: PageQuery,
}

pub(crate) struct ViewsApi {
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/auth", tag = "Area::Authentication")]
impl ViewsApi {
    /// List your saved views
    ///
    /// Returns the views that the signed-in user has saved, oldest first. There are at most 100. Needs a session: an API key is
    /// refused with 403 `insufficient_authority`.
    #[oai(path = "/views", method = "get", operation_id = "list_views")]
    async fn list_views(&self, auth: Allowed<SignedIn>, query: Filter<ListViews>) -> Result<Listed<SavedView>, Problem> {
        let user = person(&auth.principal)?;
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let mut found = self.store.read(|tx| views_of(tx, user))?;
        found.retain(|view| query.0.area.is_none_or(|area| view.area == area));
        let total = request.include_total.then_some(found.len() as u64);
        if let Some(after) = &request.after {
            found.retain(|view| view.id.to_bytes() > *after);
        }
        let more = found.len() > request.limit;
        found.truncate(request.limit);
        let last = found.last().filter(|_| more).map(|view| view.id.to_bytes());
        let data: Vec<SavedView> = found.into_iter().map(Into::into).collect();
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// Save a view
    ///
    /// Saves a query of a list under a name, for the signed-in user only. A view cannot be changed: delete it and save another one.
    /// If you already have a view with this name in the same area, the request fails with 409 `already_exists`. Needs a session: an
    /// API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/views", method = "post", operation_id = "create_view")]
    async fn create_view(
        &self,
        auth: Allowed<SignedIn>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateView>,
    ) -> Result<Created<SavedView>, Problem> {
        let user = person(&auth.principal)?;
        let new = NewView::try_from(body.0)?;
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let view = SavedView::from(create_view(tx, act, user, &new)?);
                let path = format!("/api/auth/views/{}", view.id);
                Ok::<_, AuthError>(Created::new(&view, VIEW_VERSION, &path))
            })
            .await
    }

    /// Delete a saved view
    ///
    /// Deletes a view that the signed-in user has saved. Views of other users are not found. Needs a session: an API key is refused
    /// with 403 `insufficient_authority`.
    #[oai(path = "/views/:id", method = "delete", operation_id = "delete_view")]
    async fn delete_view(&self, auth: Allowed<SignedIn>, id: Path<ViewId>, if_match: IfMatch) -> Result<Empty, Problem> {
        let user = person(&auth.principal)?;
        let intent = auth.context.intent(&auth.principal);
        self.store.write(move |tx| delete_view(tx, &mut intent.begin(), user, id.0, &if_match)).await?;
        Ok(Empty::new())
    }
}
