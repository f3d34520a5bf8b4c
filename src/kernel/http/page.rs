//! Pages: a bounded number of records and an opaque cursor that continues the list. A cursor holds the position in the index and a
//! checksum over the query and the position. It therefore works only unchanged, and only with the filters and the sort that it was
//! created for. It does not expire, because it names a key and keys keep their order.

use data_encoding::BASE64URL_NOPAD;
use poem_openapi::Object;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use tenantd_base::secrets::digest;

use super::{
    context::RequestContext,
    problem::{Code, FieldError, Problem},
};

pub const DEFAULT_LIMIT: u32 = 50;
const CHECKSUM_LENGTH: usize = 8;
/// Parameters that choose a part of the result, not the result itself.
const PAGE_PARAMETERS: [&str; 4] = ["limit", "cursor", "include_total", "count_up_to"];

/// The paging parameters that every list accepts.
#[derive(Clone, Debug, Object)]
pub struct PageQuery {
    /// The most records to return, 50 by default. A page of large records can have fewer: continue while there is a `next_cursor`.
    #[oai(validator(minimum(value = "1"), maximum(value = "200")))]
    pub limit: Option<u32>,
    /// Where to continue: the `next_cursor` of the previous page. Send it with the same filters and sort.
    pub cursor: Option<String>,
    /// Whether to count all records that match. The count is exact, so the request takes longer. Default: `false`.
    pub include_total: Option<bool>,
}

impl PageQuery {
    /// Refuses the paging parameters, and the parameters in `others`. A stream of all records has no pages.
    pub fn refuse_for_stream(&self, others: &[&str]) -> Result<(), Problem> {
        let own =
            [("limit", self.limit.is_some()), ("cursor", self.cursor.is_some()), ("include_total", self.include_total.is_some())];
        let given = own.iter().filter(|(_, given)| *given).map(|(name, _)| *name).chain(others.iter().copied());
        let error = |name: &str| {
            FieldError::parameter(name, "not_allowed", format!("{name} is not allowed for a stream of all records; omit it"))
        };
        let errors: Vec<FieldError> = given.map(error).collect();
        if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
    }
}

/// The paging parameters of a list that has no total.
#[derive(Clone, Debug, Object)]
pub struct UncountedPageQuery {
    /// The most records to return, 50 by default. A page of large records can have fewer: continue while there is a `next_cursor`.
    #[oai(validator(minimum(value = "1"), maximum(value = "200")))]
    pub limit: Option<u32>,
    /// Where to continue: the `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

impl From<UncountedPageQuery> for PageQuery {
    fn from(query: UncountedPageQuery) -> Self {
        Self { limit: query.limit, cursor: query.cursor, include_total: None }
    }
}

/// A digest of the operation, its filters and its sort.
type QueryDigest = [u8; 32];

/// The requested part of a list.
#[derive(Clone, Debug)]
pub struct PageRequest {
    pub limit: usize,
    /// The position after which to continue.
    pub after: Option<Vec<u8>>,
    pub include_total: bool,
    query: QueryDigest,
    target: String,
}

/// The position of a page in the whole list.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Object)]
pub struct Page {
    /// The limit that was used for this page.
    pub limit: u32,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
    /// How many records match in total. Present only if the request asks for it with `include_total=true`. Tickets can also be counted
    /// with `count_up_to`, which costs less.
    pub total: Option<u64>,
    #[serde(skip)]
    #[oai(skip)]
    pub(super) link: Option<String>,
}

impl PageRequest {
    pub fn new(context: &RequestContext, query: &PageQuery) -> Result<Self, Problem> {
        let digest = query_digest(context);
        let after = query.cursor.as_deref().map(|cursor| open_cursor(cursor, digest)).transpose()?;
        Ok(Self {
            limit: query.limit.unwrap_or(DEFAULT_LIMIT) as usize,
            after,
            include_total: query.include_total.unwrap_or(false),
            query: digest,
            target: context.target().to_owned(),
        })
    }

    /// The page that ends at `last`. `last` is `None` on the last page.
    pub fn page(&self, last: Option<Vec<u8>>, total: Option<u64>) -> Page {
        let next_cursor = last.map(|position| {
            let mut bytes = checksum(self.query, &position).to_vec();
            bytes.extend_from_slice(&position);
            BASE64URL_NOPAD.encode(&bytes)
        });
        let link = next_cursor.as_deref().map(|cursor| format!("<{}>; rel=\"next\"", with_cursor(&self.target, cursor)));
        Page { limit: u32::try_from(self.limit).unwrap_or(u32::MAX), next_cursor, total, link }
    }
}

fn query_digest(context: &RequestContext) -> QueryDigest {
    let mut filters: Vec<(&String, &Value)> =
        context.query.as_object().into_iter().flatten().filter(|(name, _)| !PAGE_PARAMETERS.contains(&name.as_str())).collect();
    filters.sort_by_key(|(name, _)| *name);
    let mut input = context.operation_id.to_string();
    for (name, value) in filters {
        input.push_str(&format!("\n{name}={value}"));
    }
    digest(input.as_bytes())
}

fn checksum(query: QueryDigest, position: &[u8]) -> [u8; CHECKSUM_LENGTH] {
    digest(&[&query, position].concat()).first_chunk().copied().unwrap_or_default()
}

fn open_cursor(cursor: &str, query: QueryDigest) -> Result<Vec<u8>, Problem> {
    let mismatch = || Problem::plain(Code::CursorMismatch);
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).map_err(|_| mismatch())?;
    let (found, position) = bytes.split_first_chunk::<CHECKSUM_LENGTH>().ok_or_else(mismatch)?;
    if *found == checksum(query, position) { Ok(position.to_vec()) } else { Err(mismatch()) }
}

fn with_cursor(target: &str, cursor: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("cursor="));
    let pairs: Vec<String> = kept.map(str::to_owned).chain([format!("cursor={cursor}")]).collect();
    format!("{path}?{}", pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_cursor_of_the_query_or_refused(text in "\\PC{0,120}|[A-Za-z0-9_-]{0,120}", query in any::<[u8; 32]>()) {
            if let Err(problem) = open_cursor(&text, query) {
                prop_assert_eq!(problem.code, Code::CursorMismatch);
            }
        }
    }

    #[test]
    fn a_cursor_opens_only_under_its_own_query() {
        let request = PageRequest {
            limit: 5,
            after: None,
            include_total: false,
            query: [1; 32],
            target: "/api/x?limit=5&cursor=old&status=a".to_owned(),
        };
        let page = request.page(Some(vec![9, 9]), None);
        let cursor = page.next_cursor.unwrap();
        assert_eq!(open_cursor(&cursor, [1; 32]).unwrap(), [9, 9]);
        assert_eq!(open_cursor(&cursor, [2; 32]).unwrap_err().code, Code::CursorMismatch);
        let longer = format!("{cursor}AA");
        for broken in ["", "x", "!!!!", &cursor[..4], &cursor[..cursor.len() - 2], &longer] {
            assert_eq!(open_cursor(broken, [1; 32]).unwrap_err().code, Code::CursorMismatch, "{broken}");
        }
        assert_eq!(page.link.unwrap(), format!("</api/x?limit=5&status=a&cursor={cursor}>; rel=\"next\""));
        assert!(request.page(None, None).next_cursor.is_none());
    }
}
