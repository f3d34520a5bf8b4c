//! `/api/search`.

use poem_openapi::OpenApi;

use tenantd_http::{
    input::Filter,
    mark::{Marked, Search},
    need::{Allowed, SearchRead},
    page::{PageQuery, PageRequest},
    problem::{Code, Problem},
    reply::Paged,
};

use super::{
    super::{
        model::{Facets, Mode, Options, Place, Visibility},
        service::Service,
    },
    Area,
    wire::{Fuzzy, SearchFacet, SearchFacets, SearchHit, SearchParameters, SearchResults},
};

const DEFAULT_LIMIT: u32 = 20;

pub(crate) struct SearchApi {
    pub(crate) service: Service,
}

fn options(query: &SearchParameters, request: &PageRequest) -> Result<Options, Problem> {
    let facet = |wanted: SearchFacet| query.facets.iter().flatten().any(|facet| *facet == wanted);
    let place = |bytes: &Vec<u8>| Place::from_bytes(bytes).ok_or_else(|| Problem::plain(Code::CursorMismatch));
    Ok(Options {
        kinds: query.types.clone().unwrap_or_default(),
        organization_id: query.organization_id,
        mode: query.mode.unwrap_or(Mode::Full),
        fuzzy: query.fuzzy != Some(Fuzzy::Off),
        order: query.sort.unwrap_or_default(),
        facets: Facets {
            kind: facet(SearchFacet::Type),
            organization: facet(SearchFacet::Organization),
            state: facet(SearchFacet::Status),
        },
        limit: request.limit,
        after: request.after.as_ref().map(place).transpose()?,
    })
}

#[OpenApi(prefix_path = "/api/search", tag = "Area::Search")]
impl SearchApi {
    /// Search
    ///
    /// Finds organizations, users, devices, software, tickets, workflows, VMs and cloud providers by words, names and
    /// identifiers. Case and accents do not matter. The results cover everything that was written before the request.
    ///
    /// In addition to `search:read`, you need the scope of each type: `inventory:read` for devices and software,
    /// `users:read`, `tickets:read`, `workflows:read`, `vms:read` and `providers:read`. Organizations need no other scope.
    /// The search does not find, count or suggest records that you may not read.
    ///
    /// Hits are ordered by how well they match: first an exact identifier (an IP or MAC address in any spelling, a serial
    /// number, a host name, an email address, `T-1042` or an id); then the exact name; then names that begin with the query;
    /// then names that contain all words; then other text, where rare words count more. Among equal matches, open records
    /// come before closed ones, then the most recently changed come first. In `acme printer`, a word may also come from the
    /// name of the organization.
    ///
    /// If no record contains a word, the search tries it as the beginning of a word, and then with typos. A `*` needs at
    /// least two letters before it. With exactly two letters it completes only words in names. `org:` and `assignee:` take an
    /// id, a name or the beginning of a name; `assignee:` also takes an email address. The values of `ip:`, `mac:`, `serial:`
    /// and `tag:` may end with `*`.
    ///
    /// `next_cursor` continues after the last hit in this order. A record that changes between two requests may appear on
    /// both pages or on neither.
    #[oai(path = "/", method = "get", operation_id = "search")]
    async fn search(
        &self,
        auth: Allowed<SearchRead>,
        _class: Marked<Search>,
        query: Filter<SearchParameters>,
    ) -> Result<Paged<SearchResults>, Problem> {
        let query = query.0;
        let page = PageQuery {
            limit: Some(query.limit.unwrap_or(DEFAULT_LIMIT)),
            cursor: query.cursor.clone(),
            include_total: Some(true),
        };
        let request = PageRequest::new(&auth.context, &page)?;
        let options = options(&query, &request)?;
        let principal = &auth.principal;
        let visibility = Visibility::new(principal.tenant_id, principal.grants, principal.reach.clone());
        let found = self.service.search(visibility, query.q, options).await?;
        let page = request.page(found.last.map(Place::to_bytes), Some(found.total));
        let results = SearchResults {
            data: found.hits.into_iter().map(SearchHit::from).collect(),
            page: page.clone(),
            facets: SearchFacets::new(found.facets),
            did_you_mean: found.did_you_mean,
        };
        Ok(Paged::new(&results, &page))
    }
}
