//! Properties of an operation for the edge that callers do not see: its rate class, whether it works while the disk is full, and
//! whether it gets the valid rest of a body that does not match its schema. A mark is in the handler's signature as [`Marked`], and
//! of the marks, the published document has only the rate class. Most operations need no mark, because their method says enough.

use std::marker::PhantomData;

use poem::{Request, RequestBody};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

use super::rate::RateClass;

/// A mark as a type, for use in a signature.
pub trait Mark: Send + Sync + 'static {
    /// The name of the mark among the security requirements of the draft document.
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
    LenientBody "lenient_body";
}

/// Marks the operation whose handler has this parameter.
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
    pub lenient: bool,
}

impl Marks {
    /// Finds the marks among the security requirements of an operation's draft.
    pub(super) fn find(requirements: &[&str]) -> Self {
        Self {
            class: RateClass::ALL.into_iter().find(|class| requirements.contains(&class.name())),
            while_full: requirements.contains(&WhileFull::NAME),
            lenient: requirements.contains(&LenientBody::NAME),
        }
    }
}

#[cfg(test)]
mod tests {
    use poem_openapi::{OpenApi, OpenApiService};
    use serde_json::json;

    use super::*;
    use crate::openapi::{About, Additions, publish};

    struct Api;

    #[OpenApi]
    impl Api {
        #[oai(path = "/marked", method = "post", operation_id = "marked")]
        async fn marked(&self, _class: Marked<Report>, _full: Marked<WhileFull>) {}

        #[oai(path = "/plain", method = "post", operation_id = "plain")]
        async fn plain(&self) {}
    }

    #[test]
    fn of_the_marks_only_the_rate_class_is_published() {
        let about = About { title: "", version: "", description: "" };
        let document = publish(&OpenApiService::new(Api, "", "").spec(), about, Additions::default()).unwrap();
        assert_eq!(document.marks["marked"], Marks { class: Some(RateClass::Report), while_full: true, lenient: false });
        assert_eq!(document.marks["plain"], Marks::default());
        let mut marked = document.published["paths"]["/marked"]["post"].clone();
        assert_eq!(marked["x-rate-class"], "report");
        marked["operationId"] = json!("plain");
        marked["x-rate-class"] = json!("public");
        assert_eq!(marked, document.published["paths"]["/plain"]["post"]);
    }
}
