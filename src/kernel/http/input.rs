//! Input in a handler's signature. The edge has already checked it against the document; here it becomes the type of the handler.

use poem::{Request, RequestBody};
use poem_openapi::{
    ApiExtractor, ApiExtractorType, ExtractParamOptions,
    registry::{MetaMediaType, MetaParamIn, MetaRequest, MetaSchemaRef, Registry},
    types::{ParseFromJSON, Type},
};
use serde_json::{Value, json};

use super::{
    FORM,
    context::RequestContext,
    mark::{LenientBody, Mark},
    problem::{FieldError, Problem},
};

/// A JSON body. If `REQUIRED` is false, a missing body counts as `{}`.
#[derive(Debug)]
pub struct Body<T, const REQUIRED: bool = true>(pub T);

pub type OptionalBody<T> = Body<T, false>;

impl<'a, T: ParseFromJSON, const REQUIRED: bool> ApiExtractor<'a> for Body<T, REQUIRED> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::RequestObject];
    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn request_meta() -> Option<MetaRequest> {
        let content = vec![MetaMediaType { content_type: "application/json", schema: T::schema_ref() }];
        Some(MetaRequest { description: None, content, required: REQUIRED })
    }

    async fn from_request(request: &'a Request, _body: &mut RequestBody, _options: ExtractParamOptions<()>) -> poem::Result<Self> {
        let body = RequestContext::of(request)?.take_body().unwrap_or_else(|| json!({}));
        parse::<T>(body).map(Self)
    }
}

/// A form, for operations whose protocol defines one. Each field is a text, and is given once.
#[derive(Debug)]
pub struct FormBody<T>(pub T);

impl<'a, T: ParseFromJSON> ApiExtractor<'a> for FormBody<T> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::RequestObject];
    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn request_meta() -> Option<MetaRequest> {
        let content = vec![MetaMediaType { content_type: FORM, schema: T::schema_ref() }];
        Some(MetaRequest { description: None, content, required: true })
    }

    async fn from_request(request: &'a Request, body: &mut RequestBody, options: ExtractParamOptions<()>) -> poem::Result<Self> {
        Ok(Self(Body::<T>::from_request(request, body, options).await?.0))
    }
}

/// A JSON body that reaches the handler even if it does not match its schema, without the wrong members. The request then runs only
/// as a dry run, and the caller gets the errors of the schema and of the handler together. The store undoes the writes of a dry
/// run. A handler with other effects, or with calls to other servers, checks `is_rehearsal` before them.
#[derive(Debug)]
pub struct Lenient<T>(pub T);

impl<'a, T: ParseFromJSON> ApiExtractor<'a> for Lenient<T> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::RequestObject, ApiExtractorType::SecurityScheme];
    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn security_schemes() -> Vec<&'static str> {
        vec![LenientBody::NAME]
    }

    fn request_meta() -> Option<MetaRequest> {
        <Body<T>>::request_meta()
    }

    async fn from_request(request: &'a Request, body: &mut RequestBody, options: ExtractParamOptions<()>) -> poem::Result<Self> {
        Ok(Self(Body::<T>::from_request(request, body, options).await?.0))
    }
}

/// The query, as an object with one field per parameter. The argument must be named `query`, or `open_query` where an external
/// protocol defines the parameters.
#[derive(Debug)]
pub struct Filter<T>(pub T);

impl<'a, T: ParseFromJSON + Type> ApiExtractor<'a> for Filter<T> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::Parameter];
    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn param_in() -> Option<MetaParamIn> {
        Some(MetaParamIn::Query)
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        Some(T::schema_ref())
    }

    async fn from_request(request: &'a Request, _body: &mut RequestBody, _options: ExtractParamOptions<()>) -> poem::Result<Self> {
        parse::<T>(RequestContext::of(request)?.query.clone()).map(Self)
    }
}

/// Implements the extractor for a type that reads a header of the request. `openapi::normalize` derives the name of the header from
/// the name of the argument.
macro_rules! header_parameter {
    ($type:ty, $schema:expr, $read:expr) => {
        impl<'a> poem_openapi::ApiExtractor<'a> for $type {
            const TYPES: &'static [poem_openapi::ApiExtractorType] = &[poem_openapi::ApiExtractorType::Parameter];
            type ParamType = ();
            type ParamRawType = ();

            fn param_in() -> Option<poem_openapi::registry::MetaParamIn> {
                Some(poem_openapi::registry::MetaParamIn::Header)
            }

            fn param_schema_ref() -> Option<poem_openapi::registry::MetaSchemaRef> {
                Some(poem_openapi::registry::MetaSchemaRef::Inline(Box::new($schema)))
            }

            async fn from_request(
                request: &'a poem::Request,
                _body: &mut poem::RequestBody,
                _options: poem_openapi::ExtractParamOptions<()>,
            ) -> poem::Result<Self> {
                let read: fn(&poem::Request) -> poem::Result<Self> = $read;
                read(request)
            }
        }
    };
}

pub(super) use header_parameter;

/// A value that matches the schema can still be invalid for the type, such as an id with an extra digit.
fn parse<T: ParseFromJSON>(value: Value) -> poem::Result<T> {
    T::parse_from_json(Some(value)).map_err(|error| {
        let message = error.into_message();
        Problem::invalid(vec![FieldError::pointer("", "not_valid", message)]).into()
    })
}

/// Returns the one id of an operation whose record can be named in the query or in the body.
pub fn target<T: Copy + PartialEq>(in_query: Option<T>, in_body: Option<T>) -> Result<T, Problem> {
    match (in_query, in_body) {
        (Some(query), Some(body)) if query != body => Err(Problem::plain(super::problem::Code::IdMismatch)),
        (Some(id), _) | (None, Some(id)) => Ok(id),
        (None, None) => {
            let error = FieldError::parameter("id", "required", "name the record with ?id= or with id in the body");
            Err(Problem::invalid(vec![error]))
        }
    }
}
