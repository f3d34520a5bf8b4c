//! What an operation says of itself to the edge, and not to callers: its rate class, whether it works while the disk is full, and whether it
//! gets what is left of a body that does not match its schema. It stands in the handler's signature as [`Marked`], and the published document
//! leaves it out. Most operations need no mark: their method says enough.

use std::marker::PhantomData;

use poem::{Request, RequestBody};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

use super::rate::RateClass;

/// A mark as a type, to stand in a signature.
pub trait Mark: Send + Sync + 'static {
    /// The mark as the document's draft carries it: among the security requirements.
    const NAME: &'static str;
}

macro_rules! marks {
    ($($type:ident $name:expr;)*) => {$(
        #[derive(Debug)]
        pub struct $type;

        impl Mark for $type {
            const NAME: &'static str = $name;
        }
    )*};
}

marks! {
    SignIn RateClass::SignIn.name();
    Search RateClass::Search.name();
    Report RateClass::Report.name();
    Provision RateClass::Provision.name();
    WhileFull "while_full";
    Judge "judge";
}

/// Marks the operation of the handler that takes it.
#[derive(Debug)]
pub struct Marked<M>(PhantomData<fn() -> M>);

impl<'a, M: Mark> ApiExtractor<'a> for Marked<M> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::SecurityScheme];
    type ParamType = ();
    type ParamRawType = ();

    fn security_schemes() -> Vec<&'static str> {
        vec![M::NAME]
    }

    async fn from_request(_request: &'a Request, _body: &mut RequestBody, _options: ExtractParamOptions<()>) -> poem::Result<Self> {
        Ok(Self(PhantomData))
    }
}

/// The marks of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub class: Option<RateClass>,
    pub while_full: bool,
    pub judges: bool,
}

impl Marks {
    /// Finds the marks among the security requirements of an operation's draft.
    pub(super) fn find(requirements: &[&str]) -> Self {
        Self {
            class: RateClass::ALL.into_iter().find(|class| requirements.contains(&class.name())),
            while_full: requirements.contains(&WhileFull::NAME),
            judges: requirements.contains(&Judge::NAME),
        }
    }
}

#[cfg(test)]
mod tests {
    use poem_openapi::{OpenApi, OpenApiService};
    use serde_json::json;

    use super::*;
    use crate::openapi::{About, More, publish};

    struct Api;

    #[OpenApi]
    impl Api {
        #[oai(path = "/marked", method = "post", operation_id = "marked")]
        async fn marked(&self, _class: Marked<Report>, _full: Marked<WhileFull>) {}

        #[oai(path = "/plain", method = "post", operation_id = "plain")]
        async fn plain(&self) {}
    }

    #[test]
    fn marks_reach_the_edge_and_not_the_published_document() {
        let about = About { title: "", version: "", description: "" };
        let document = publish(&OpenApiService::new(Api, "", "").spec(), about, More::default()).unwrap();
        assert_eq!(document.marks["marked"], Marks { class: Some(RateClass::Report), while_full: true, judges: false });
        assert_eq!(document.marks["plain"], Marks::default());
        let mut marked = document.published["paths"]["/marked"]["post"].clone();
        marked["operationId"] = json!("plain");
        assert_eq!(marked, document.published["paths"]["/plain"]["post"]);
    }
}
