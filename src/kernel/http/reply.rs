//! Answers in a handler's signature. Their schema comes from poem-openapi, and their bytes come from serde.
//!
//! The `Json` of poem-openapi first builds a tree of `serde_json::Value`, which costs more than the rest of a list request. Here
//! the record is written to bytes once. An idempotent creation stores those same bytes.

use std::marker::PhantomData;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use poem::{IntoResponse, Response};
use poem_openapi::{
    ApiResponse,
    registry::{MetaHeader, MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
    types::Type,
};
use serde::Serialize;

use super::{page::Page, precondition::etag};

/// An answer as bytes.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub status: StatusCode,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// Whether the body holds a secret that is shown only once.
    pub secret: bool,
}

impl Rendered {
    pub fn json(status: StatusCode, value: &impl Serialize) -> Self {
        // One record fits; a list grows the buffer only a few times.
        let mut body = Vec::with_capacity(1 << 10);
        match serde_json::to_writer(&mut body, value) {
            Ok(()) => Self { status, headers: Vec::new(), body: body.into(), secret: false },
            Err(error) => {
                tracing::error!(%error, "failed to write an answer as JSON");
                Self { status: StatusCode::INTERNAL_SERVER_ERROR, headers: Vec::new(), body: Bytes::new(), secret: false }
            }
        }
    }

    /// A page of a list, with a link to the next page.
    pub fn page(list: &impl Serialize, page: &Page) -> Self {
        let rendered = Self::json(StatusCode::OK, list);
        page.link.iter().fold(rendered, |rendered, link| rendered.header(header::LINK, link))
    }

    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }
}

impl IntoResponse for Rendered {
    fn into_response(self) -> Response {
        let has_body = !self.body.is_empty();
        let mut response = Response::builder().status(self.status).body(self.body);
        let headers = response.headers_mut();
        if has_body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if self.secret {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        response
    }
}

pub(super) fn response(
    status: u16,
    description: &'static str,
    schema: Option<MetaSchemaRef>,
    headers: &[(&str, &str)],
) -> MetaResponse {
    let header = |(name, what): &(&str, &str)| MetaHeader {
        name: (*name).to_owned(),
        description: Some((*what).to_owned()),
        required: false,
        deprecated: false,
        schema: MetaSchemaRef::Inline(Box::new(MetaSchema::new("string"))),
    };
    MetaResponse {
        description,
        status: Some(status),
        status_range: None,
        content: schema.map(|schema| MetaMediaType { content_type: "application/json", schema }).into_iter().collect(),
        headers: headers.iter().map(header).collect(),
    }
}

/// Declares a problem that does not follow from the shape of the operation.
pub fn declared(status: u16) -> MetaResponse {
    response(status, "", None, &[])
}

const ETAG_HEADER: (&str, &str) = ("ETag", "The version of the record. Send it in `If-Match` when you change the record.");
pub(super) const LINK_HEADER: (&str, &str) =
    ("Link", "The address of the next page, as `<…>; rel=\"next\"`. Absent on the last page.");

/// Declares an answer with one record. Its constructors are in a separate `impl`.
macro_rules! answer {
    ($(#[$doc:meta])* $name:ident, [$($response:expr),*]) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<T>(pub Rendered, PhantomData<fn() -> T>);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self(self.0.clone(), PhantomData)
            }
        }

        impl<T: Send> IntoResponse for $name<T> {
            fn into_response(self) -> Response {
                self.0.into_response()
            }
        }

        impl<T: Type> ApiResponse for $name<T> {
            fn meta() -> MetaResponses {
                MetaResponses { responses: vec![$($response),*] }
            }

            fn register(registry: &mut Registry) {
                T::register(registry);
            }
        }
    };
}

answer!(
    /// 200 with a value that has no version.
    Answer,
    [response(200, "", Some(T::schema_ref()), &[])]
);

impl<T> Answer<T> {
    /// Writes `stored`, which has the shape that `T` declares.
    pub fn stored(stored: &impl Serialize) -> Self {
        Self(Rendered::json(StatusCode::OK, stored), PhantomData)
    }
}

impl<T: Serialize> Answer<T> {
    pub fn new(value: &T) -> Self {
        Self::stored(value)
    }

    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        self.0 = self.0.header(name, value);
        self
    }
}

answer!(
    /// 200 with a record, or 304 if the caller already has this version.
    Found,
    [response(200, "", Some(T::schema_ref()), &[ETAG_HEADER]), response(304, "", None, &[ETAG_HEADER])]
);

impl<T: Serialize> Found<T> {
    pub fn new(value: &T, version: u64) -> Self {
        Self(Rendered::json(StatusCode::OK, value).header(header::ETAG, &etag(version)), PhantomData)
    }

    pub fn not_modified(version: u64) -> Self {
        let rendered = Rendered { status: StatusCode::NOT_MODIFIED, headers: Vec::new(), body: Bytes::new(), secret: false };
        Self(rendered.header(header::ETAG, &etag(version)), PhantomData)
    }
}

answer!(
    /// 200 with the record after a change.
    Changed,
    [response(200, "", Some(T::schema_ref()), &[ETAG_HEADER])]
);

impl<T> Changed<T> {
    /// Writes `value`, which has one of the shapes that `T` declares. Several records have no version.
    pub fn shaped(value: &impl Serialize, version: Option<u64>) -> Self {
        let rendered = Rendered::json(StatusCode::OK, value);
        let version = version.map(etag);
        Self(version.iter().fold(rendered, |rendered, tag| rendered.header(header::ETAG, tag)), PhantomData)
    }
}

impl<T: Serialize> Changed<T> {
    /// A result without a version.
    pub fn unversioned(value: &T) -> Self {
        Self(Rendered::json(StatusCode::OK, value), PhantomData)
    }

    pub fn new(value: &T, version: u64) -> Self {
        Self(Rendered::json(StatusCode::OK, value).header(header::ETAG, &etag(version)), PhantomData)
    }

    /// Marks the answer as one that shows a secret once.
    pub fn secret(mut self) -> Self {
        self.0.secret = true;
        self
    }
}

answer!(
    /// 201 with the new record and its path.
    Created,
    [response(201, "", Some(T::schema_ref()), &[("Location", "The path of the new record."), ETAG_HEADER])]
);

impl<T> Created<T> {
    /// Writes `value`, which has the shape that `T` declares.
    pub fn shaped(value: &impl Serialize, version: u64, location: &str) -> Self {
        let rendered = Rendered::json(StatusCode::CREATED, value);
        Self(rendered.header(header::LOCATION, location).header(header::ETAG, &etag(version)), PhantomData)
    }
}

impl<T: Serialize> Created<T> {
    pub fn new(value: &T, version: u64, location: &str) -> Self {
        Self::shaped(value, version, location)
    }

    /// Marks the answer as one that shows a secret once.
    pub fn secret(mut self) -> Self {
        self.0.secret = true;
        self
    }
}

answer!(
    /// 201 with the new record; 200 with an existing record, or with the result of a dry run.
    Settled,
    [
        response(201, "", Some(T::schema_ref()), &[("Location", "The path of the new record."), ETAG_HEADER]),
        response(200, "Nothing was created: the record already exists, or the request was a dry run.", Some(T::schema_ref()), &[ETAG_HEADER])
    ]
);

impl<T> Settled<T> {
    /// Writes `value`, which has one of the shapes that `T` declares.
    pub fn created(value: &impl Serialize, place: Option<(u64, &str)>) -> Self {
        let mut rendered = Rendered::json(StatusCode::CREATED, value);
        if let Some((version, location)) = place {
            rendered = rendered.header(header::LOCATION, location).header(header::ETAG, &etag(version));
        }
        Self(rendered, PhantomData)
    }

    pub fn kept(value: &impl Serialize, version: Option<u64>) -> Self {
        let rendered = Rendered::json(StatusCode::OK, value);
        let version = version.map(etag);
        Self(version.iter().fold(rendered, |rendered, tag| rendered.header(header::ETAG, tag)), PhantomData)
    }
}

impl<T: 'static> Replayable for Settled<T> {
    fn rendered(&self) -> &Rendered {
        &self.0
    }
}

answer!(
    /// 202 with a background operation and the path of its progress.
    Accepted,
    [response(202, "", Some(T::schema_ref()), &[("Location", "The path where you can follow the progress.")])]
);

impl<T: Serialize> Accepted<T> {
    pub fn new(value: &T, location: &str) -> Self {
        Self(Rendered::json(StatusCode::ACCEPTED, value).header(header::LOCATION, location), PhantomData)
    }
}

answer!(
    /// 200 with the record or the page of records that was requested; 304 if the caller already has this version of the record.
    Viewed,
    [response(200, "", Some(T::schema_ref()), &[ETAG_HEADER, LINK_HEADER]), response(304, "", None, &[ETAG_HEADER])]
);

/// The values have one of the shapes that `T` declares.
impl<T> Viewed<T> {
    pub fn record(value: &impl Serialize, version: Option<u64>) -> Self {
        let rendered = Rendered::json(StatusCode::OK, value);
        let version = version.map(etag);
        Self(version.iter().fold(rendered, |rendered, tag| rendered.header(header::ETAG, tag)), PhantomData)
    }

    pub fn page<D: Serialize>(data: &[D], page: &Page) -> Self {
        Self(Rendered::page(&ListBody { data, page }, page), PhantomData)
    }

    pub fn not_modified(version: u64) -> Self {
        let rendered = Rendered { status: StatusCode::NOT_MODIFIED, headers: Vec::new(), body: Bytes::new(), secret: false };
        Self(rendered.header(header::ETAG, &etag(version)), PhantomData)
    }
}

answer!(
    /// 202 with a background operation, 201 with a new record, 200 with an existing record or the result of a dry run.
    Triggered,
    [
        response(202, "The operation continues in the background.", Some(T::schema_ref()), &[("Location", "The path where you can follow the progress.")]),
        response(201, "", Some(T::schema_ref()), &[("Location", "The path of the new record."), ETAG_HEADER]),
        response(200, "Nothing was started or created: the record already exists, or the request was a dry run.", Some(T::schema_ref()), &[])
    ]
);

/// The values have one of the shapes that `T` declares.
impl<T> Triggered<T> {
    pub fn accepted(value: &impl Serialize, location: &str) -> Self {
        Self(Rendered::json(StatusCode::ACCEPTED, value).header(header::LOCATION, location), PhantomData)
    }

    pub fn created(value: &impl Serialize, version: u64, location: &str) -> Self {
        let rendered = Rendered::json(StatusCode::CREATED, value);
        Self(rendered.header(header::LOCATION, location).header(header::ETAG, &etag(version)), PhantomData)
    }

    pub fn ok(value: &impl Serialize) -> Self {
        Self(Rendered::json(StatusCode::OK, value), PhantomData)
    }
}

impl<T: 'static> Replayable for Triggered<T> {
    fn rendered(&self) -> &Rendered {
        &self.0
    }
}

answer!(
    /// 200 with a page that has more members than its records. `T` declares all of them.
    Paged,
    [response(200, "", Some(T::schema_ref()), &[LINK_HEADER])]
);

impl<T: Serialize> Paged<T> {
    pub fn new(value: &T, page: &Page) -> Self {
        Self(Rendered::page(value, page), PhantomData)
    }
}

answer!(
    /// 202 with a background operation, 200 with a page or the result of a dry run.
    AcceptedOrOk,
    [
        response(202, "The operation continues in the background.", Some(T::schema_ref()), &[("Location", "The path where you can follow the progress.")]),
        response(200, "The current records, or the result of a dry run.", Some(T::schema_ref()), &[LINK_HEADER])
    ]
);

/// The values have the shape that `T` declares.
impl<T: Serialize> AcceptedOrOk<T> {
    pub fn accepted(value: &T, location: &str) -> Self {
        Self(Rendered::json(StatusCode::ACCEPTED, value).header(header::LOCATION, location), PhantomData)
    }

    pub fn page(value: &T, page: &Page) -> Self {
        Self(Rendered::page(value, page), PhantomData)
    }

    pub fn ok(value: &T) -> Self {
        Self(Rendered::json(StatusCode::OK, value), PhantomData)
    }
}

impl<T: 'static> Replayable for AcceptedOrOk<T> {
    fn rendered(&self) -> &Rendered {
        &self.0
    }
}

/// A page of records: `{"data": […], "page": {…}}`.
#[derive(Debug)]
pub struct Listed<T>(pub Rendered, PhantomData<fn() -> T>);

impl<T> Clone for Listed<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

#[derive(Serialize)]
struct ListBody<'a, T> {
    data: &'a [T],
    page: &'a Page,
}

impl<T: Serialize> Listed<T> {
    pub fn new(data: &[T], page: &Page) -> Self {
        Self(Rendered::page(&ListBody { data, page }, page), PhantomData)
    }
}

impl<T: Send> IntoResponse for Listed<T> {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl<T: Type> ApiResponse for Listed<T> {
    fn meta() -> MetaResponses {
        let data = MetaSchema { items: Some(Box::new(T::schema_ref())), ..MetaSchema::new("array") };
        let schema = MetaSchema {
            required: vec!["data", "page"],
            properties: vec![("data", MetaSchemaRef::Inline(Box::new(data))), ("page", Page::schema_ref())],
            ..MetaSchema::new("object")
        };
        let schema = MetaSchemaRef::Inline(Box::new(schema));
        MetaResponses { responses: vec![response(200, "", Some(schema), &[LINK_HEADER])] }
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
        Page::register(registry);
    }
}

/// 204 without a body.
#[derive(Clone, Debug)]
pub struct Empty(pub Rendered);

impl Empty {
    pub fn new() -> Self {
        Self(Rendered { status: StatusCode::NO_CONTENT, headers: Vec::new(), body: Bytes::new(), secret: false })
    }

    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        self.0 = self.0.header(name, value);
        self
    }
}

impl Default for Empty {
    fn default() -> Self {
        Self::new()
    }
}

impl IntoResponse for Empty {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl ApiResponse for Empty {
    fn meta() -> MetaResponses {
        MetaResponses { responses: vec![response(204, "", None, &[])] }
    }

    fn register(_registry: &mut Registry) {}
}

/// An answer whose bytes an idempotent request stores.
pub trait Replayable: Send + 'static {
    fn rendered(&self) -> &Rendered;
}

impl<T: 'static> Replayable for Created<T> {
    fn rendered(&self) -> &Rendered {
        &self.0
    }
}

impl<T: 'static> Replayable for Accepted<T> {
    fn rendered(&self) -> &Rendered {
        &self.0
    }
}

impl<T: 'static> Replayable for Changed<T> {
    fn rendered(&self) -> &Rendered {
        &self.0
    }
}

impl Replayable for Empty {
    fn rendered(&self) -> &Rendered {
        &self.0
    }
}
