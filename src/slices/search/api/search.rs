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
        model::{Facets, Mode, Options, Place, Sight},
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
    /// Finds organizations, users, devices, software, tickets and workflows by words, names and identifiers, in any case and with or
    /// without accents. An answer covers everything that was written before the request.
    ///
    /// A hit needs the scope of its type beside `search:read`: `inventory:read` for devices and software, `users:read`,
    /// `tickets:read`, `workflows:read`, `vms:read`, `providers:read`; organizations need none. What the caller may not read is not
    /// found, not counted and not suggested.
    ///
    /// The order: an exact identifier (IP or MAC address in any spelling, serial number, host name, e-mail address, `T-1042`, an id);
    /// the exact name; names that begin so; names with all words; other text, the rarer the words the earlier. Among equals the open
    /// come before the closed, and what changed last comes first. In `acme printer` a word may also be of the organization's name.
    ///
    /// A word that nothing has is tried as the beginning of a word, and then with typos. A `*` needs two letters before it; with two
    /// it completes words of names only. `org:` and `assignee:` take an id, a name or its beginning, and `assignee:` an e-mail address.
    /// `ip:`, `mac:`, `serial:` and `tag:` may end in `*`.
    ///
    /// `next_cursor` continues behind the last hit in this order; a record that changes between two pages may be on both or on neither.
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
        let sight = Sight::new(principal.tenant_id, principal.grants, principal.reach.clone());
        let found = self.service.search(sight, query.q, options).await?;
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
