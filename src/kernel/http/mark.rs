//! Properties of an operation for the edge: its rate class, whether it needs a recent sign-in, whether it works while the disk is full or
//! without a required second factor, whether it sets a cookie, and whether it gets the valid rest of a body that does not match its schema. A
//! mark is in the handler's signature as [`Marked`]. The published document has the rate class, the recent sign-in and the cookie. Most
//! operations need no mark, because their method says enough.

use std::marker::PhantomData;

use poem::{Request, RequestBody};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

use super::{
    rate::RateClass,
    recent::{Recency, RecentUnlessReducing},
};

/// The member of an operation in the published document whose answer sets or removes a cookie. In a browser, such an operation replaces
/// the session of the person who calls it.
pub const SETS_COOKIE: &str = "x-sets-cookie";

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
    RecentSignIn "recent_sign_in";
    WhileFull "while_full";
    WithoutFactor "without_factor";
    SetsCookie "sets_cookie";
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
#[allow(clippy::struct_excessive_bools, reason = "each mark is set or not, independently of the others")]
pub struct Marks {
    pub class: Option<RateClass>,
    pub recency: Recency,
    pub while_full: bool,
    /// Whether it works in a session that lacks a required second factor.
    pub without_factor: bool,
    pub sets_cookie: bool,
    pub lenient: bool,
}

impl Marks {
    /// Finds the marks among the security requirements of an operation's draft.
    pub(super) fn find(requirements: &[&str]) -> Self {
        let recency = match () {
            () if requirements.contains(&RecentSignIn::NAME) => Recency::Always,
            () if requirements.contains(&RecentUnlessReducing::NAME) => Recency::UnlessReducing,
            () => Recency::Never,
        };
        Self {
            recency,
            class: RateClass::ALL.into_iter().find(|class| requirements.contains(&class.name())),
            while_full: requirements.contains(&WhileFull::NAME),
            without_factor: requirements.contains(&WithoutFactor::NAME),
            sets_cookie: requirements.contains(&SetsCookie::NAME),
            lenient: requirements.contains(&LenientBody::NAME),
        }
    }
}

#[cfg(test)]
mod tests {
    use poem_openapi::{OpenApi, OpenApiService};
    use serde_json::json;

    use super::*;
    use crate::{
        openapi::{About, Additions, publish},
        recent::RECENT_SIGN_IN,
    };

    struct Api;

    #[OpenApi]
    impl Api {
        #[oai(path = "/marked", method = "post", operation_id = "marked")]
        async fn marked(
            &self,
            _class: Marked<Report>,
            _recent: Marked<RecentSignIn>,
            _full: Marked<WhileFull>,
            _cookie: Marked<SetsCookie>,
        ) {
        }

        #[oai(path = "/plain", method = "post", operation_id = "plain")]
        async fn plain(&self) {}
    }

    #[test]
    fn of_the_marks_the_rate_class_the_recent_sign_in_and_the_cookie_are_published() {
        let about = About { title: "", version: "", description: "" };
        let document = publish(&OpenApiService::new(Api, "", "").spec(), about, Additions::default()).unwrap();
        let marks = Marks {
            class: Some(RateClass::Report),
            recency: Recency::Always,
            while_full: true,
            without_factor: false,
            sets_cookie: true,
            lenient: false,
        };
        assert_eq!(document.marks["marked"], marks);
        assert_eq!(document.marks["plain"], Marks::default());
        let mut marked = document.published["paths"]["/marked"]["post"].clone();
        assert_eq!(marked["x-rate-class"], "report");
        for member in [RECENT_SIGN_IN, SETS_COOKIE] {
            assert_eq!(marked.as_object_mut().unwrap().remove(member), Some(json!(true)), "{member}");
        }
        marked["operationId"] = json!("plain");
        marked["x-rate-class"] = json!("public");
        assert_eq!(marked, document.published["paths"]["/plain"]["post"]);
    }
}
