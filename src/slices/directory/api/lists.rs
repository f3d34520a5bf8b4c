//! The lists of directory records: their parameters, and the pages and streams of matching records.

use std::time::Duration;

use poem::Request;
use poem_openapi::{Enum, Object};
use serde::Serialize;

use tenantd_base::{
    access::Principal,
    clock::Timestamp,
    fault::Fault,
    id::{OrganizationId, TenantId},
    vocabulary::vocabulary,
};
use tenantd_http::{
    acts,
    bounded::Text,
    context::header,
    export::{RowFormat, Rows},
    need::{Allowed, DirectoryRead},
    outgoing::{Exported, ListOrStream, Outgoing, StreamError, Streams},
    page::{Page, PageQuery, PageRequest},
    problem::Problem,
    wire::{Word, word_type},
};
use tenantd_store::{Direction, Read, ReadTx, Store, StoreError};

use super::{
    super::{
        listing::{ContactQuery, Folded, Labels, Listing, Order, OrganizationQuery, SortField, page, slice, total},
        model::{UserStatus, normalize_email},
    },
    device_filters::DeviceFilters,
};

/// The number of rows to build and send at a time.
const SLICE: usize = 200;
/// The number of positions to find at a time for an order without an index.
const SORTED: usize = 10_000;
/// The maximum duration of a stream. The store cannot reuse space that an open snapshot may still read.
const HELD: Duration = Duration::from_mins(30);

vocabulary! {
    DirectorySort:
    CreatedAt "created_at", CreatedAtDescending "-created_at", UpdatedAt "updated_at", UpdatedAtDescending "-updated_at",
    Name "name", NameDescending "-name",
}

vocabulary! {
    DeviceSort:
    CreatedAt "created_at", CreatedAtDescending "-created_at", UpdatedAt "updated_at", UpdatedAtDescending "-updated_at",
    Name "name", NameDescending "-name", LastSeenAt "last_seen_at", LastSeenAtDescending "-last_seen_at",
}

word_type! {
    DirectorySort, "DirectorySort", "The order of a list. A leading minus reverses it.";
    DeviceSort, "DeviceSort", "The order of a list of devices. A leading minus reverses it.";
}

/// Parses a word such as `-name` into an order.
fn order(word: &str) -> Order {
    let (field, direction) = match word.strip_prefix('-') {
        Some(field) => (field, Direction::Backward),
        None => (word, Direction::Forward),
    };
    let field = match field {
        "name" => SortField::Name,
        "updated_at" => SortField::UpdatedAt,
        "last_seen_at" => SortField::LastSeenAt,
        _ => SortField::CreatedAt,
    };
    Order { field, direction }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum DirectoryFormat {
    Json,
    Csv,
    Ndjson,
}

/// The order, format and page of a list.
#[derive(Debug)]
pub(super) struct ListOptions {
    order: Order,
    format: Option<DirectoryFormat>,
    page: PageQuery,
}

#[derive(Debug, Object)]
pub(super) struct ListOrganizations {
    /// Returns only organizations with one of these names. Matches the whole name, ignoring case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    name: Option<Vec<Text<200>>>,
    /// Returns only organizations with one of these IDs in their source system.
    #[oai(validator(min_items = 1, max_items = 50))]
    external_id: Option<Vec<Text<200>>>,
    /// Returns only organizations whose name or external ID contains this text, ignoring case and accents.
    q: Option<Text<200>>,
    /// Returns only organizations created after this time.
    created_after: Option<Timestamp>,
    /// Returns only organizations created before this time.
    created_before: Option<Timestamp>,
    /// Returns only organizations last changed after this time.
    updated_after: Option<Timestamp>,
    /// Returns only organizations last changed before this time.
    updated_before: Option<Timestamp>,
    /// The sort order; a leading `-` reverses it. Defaults to `created_at`, oldest first.
    sort: Option<DirectorySort>,
    /// The format: `json` by default. `csv` and `ndjson` stream all matching organizations without pages.
    format: Option<DirectoryFormat>,
    #[oai(flatten)]
    page: PageQuery,
}

fn folded<const MAX: usize>(name: &str, texts: Option<&Vec<Text<MAX>>>, faults: &mut Vec<Fault>) -> Vec<Folded> {
    let mut read = Vec::new();
    for text in texts.into_iter().flatten() {
        let text = Folded::new(text.as_str());
        if text.is_empty() {
            faults.push(Fault::parameter(name, "wrong_form", format!("{name} must not be blank")));
        } else {
            read.push(text);
        }
    }
    read
}

fn texts<const MAX: usize>(texts: Option<Vec<Text<MAX>>>) -> Vec<String> {
    texts.into_iter().flatten().map(Text::into_string).collect()
}

impl ListOrganizations {
    pub(super) fn query(self, principal: &Principal) -> Result<(OrganizationQuery, ListOptions), Problem> {
        let mut faults = Vec::new();
        let query = OrganizationQuery {
            tenant_id: principal.tenant_id,
            reach: principal.reach.clone(),
            names: folded("name", self.name.as_ref(), &mut faults),
            external_ids: texts(self.external_id),
            text: folded("q", self.q.map(|text| vec![text]).as_ref(), &mut faults).pop(),
            created_after: self.created_after,
            created_before: self.created_before,
            updated_after: self.updated_after,
            updated_before: self.updated_before,
        };
        if !faults.is_empty() {
            return Err(faults.into());
        }
        let order = order(self.sort.map_or("created_at", DirectorySort::name));
        Ok((query, ListOptions { order, format: self.format, page: self.page }))
    }
}

#[derive(Debug, Object)]
pub(super) struct ListContacts {
    /// Returns only contacts of these organizations.
    #[oai(validator(min_items = 1, max_items = 200))]
    organization_id: Option<Vec<OrganizationId>>,
    /// Returns only contacts with one of these names. Matches the whole name, ignoring case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    name: Option<Vec<Text<200>>>,
    /// Returns only contacts with one of these email addresses, ignoring case.
    #[oai(validator(min_items = 1, max_items = 50))]
    email: Option<Vec<Text<254>>>,
    /// Returns only contacts with one of these IDs in their source system.
    #[oai(validator(min_items = 1, max_items = 50))]
    external_id: Option<Vec<Text<200>>>,
    /// Returns only contacts with one of these statuses.
    #[oai(validator(min_items = 1, max_items = 2))]
    status: Option<Vec<Word<UserStatus>>>,
    /// Returns only contacts whose name, email address or external ID contains this text, ignoring case and accents.
    q: Option<Text<200>>,
    /// Returns only contacts created after this time.
    created_after: Option<Timestamp>,
    /// Returns only contacts created before this time.
    created_before: Option<Timestamp>,
    /// Returns only contacts last changed after this time.
    updated_after: Option<Timestamp>,
    /// Returns only contacts last changed before this time.
    updated_before: Option<Timestamp>,
    /// The sort order; a leading `-` reverses it. Defaults to `created_at`, oldest first.
    sort: Option<DirectorySort>,
    /// The format: `json` by default. `csv` and `ndjson` stream all matching contacts without pages.
    format: Option<DirectoryFormat>,
    #[oai(flatten)]
    page: PageQuery,
}

impl ListContacts {
    pub(super) fn query(self, principal: &Principal) -> Result<(ContactQuery, ListOptions), Problem> {
        let mut faults = Vec::new();
        let mut emails = Vec::new();
        for email in self.email.iter().flatten() {
            match normalize_email(email.as_str()) {
                Ok(email) => emails.push(email),
                Err(error) => faults.push(Fault::parameter("email", "wrong_form", error.to_string())),
            }
        }
        let query = ContactQuery {
            tenant_id: principal.tenant_id,
            reach: principal.reach.clone(),
            organizations: self.organization_id.unwrap_or_default(),
            names: folded("name", self.name.as_ref(), &mut faults),
            emails,
            external_ids: texts(self.external_id),
            statuses: self.status.into_iter().flatten().map(|status| status.0).collect(),
            text: folded("q", self.q.map(|text| vec![text]).as_ref(), &mut faults).pop(),
            created_after: self.created_after,
            created_before: self.created_before,
            updated_after: self.updated_after,
            updated_before: self.updated_before,
        };
        if !faults.is_empty() {
            return Err(faults.into());
        }
        let order = order(self.sort.map_or("created_at", DirectorySort::name));
        Ok((query, ListOptions { order, format: self.format, page: self.page }))
    }
}

#[derive(Debug, Object)]
pub(super) struct ListDevices {
    #[oai(flatten)]
    pub(super) filters: DeviceFilters,
    /// The sort order; a leading `-` reverses it. Defaults to `created_at`, oldest first.
    sort: Option<DeviceSort>,
    /// The format: `json` by default. `csv` and `ndjson` stream all matching devices without pages.
    format: Option<DirectoryFormat>,
    #[oai(flatten)]
    page: PageQuery,
}

impl ListDevices {
    pub(super) fn parts(self) -> (DeviceFilters, ListOptions) {
        let order = order(self.sort.map_or("created_at", DeviceSort::name));
        (self.filters, ListOptions { order, format: self.format, page: self.page })
    }
}

/// How to present the records of one list.
pub(super) trait ListView: Listing + Clone + Send + Sync + 'static {
    type Shown: Serialize + Send;
    type List: Serialize + Exported;

    /// The name of the list, as the audit log records it.
    const NAME: &'static str;
    const FILES: [&'static str; 2];
    const COLUMNS: &'static [&'static str];

    fn tenant_id(&self) -> TenantId;
    fn show(&self, tx: &impl Read, labels: &mut Labels, record: Self::Record) -> Result<Self::Shown, StoreError>;
    fn list(data: Vec<Self::Shown>, page: Page) -> Self::List;
}

/// Returns a page, or a stream of all matches.
pub(super) async fn answer<L: ListView>(
    store: &Store,
    exports: &Streams,
    auth: &Allowed<DirectoryRead>,
    request: &Request,
    query: L,
    options: ListOptions,
) -> Result<ListOrStream<L::List>, Problem> {
    let format = match options.format {
        Some(DirectoryFormat::Json) => None,
        Some(DirectoryFormat::Csv) => Some(RowFormat::Csv),
        Some(DirectoryFormat::Ndjson) => Some(RowFormat::Ndjson),
        None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
    };
    let (tenant, order) = (auth.principal.tenant_id, options.order);
    let Some(format) = format else {
        let request = PageRequest::new(&auth.context, &options.page)?;
        let reading = request.clone();
        let read = store.scan_for(tenant, move |tx| {
            let found = page(tx, &query, order, reading.after.as_deref(), reading.limit)?;
            let count = if reading.include_total { Some(total(tx, &query)?) } else { None };
            let mut labels = Labels::new(tenant);
            let shown: Result<Vec<L::Shown>, StoreError> =
                found.records.into_iter().map(|record| query.show(tx, &mut labels, record)).collect();
            Ok::<_, StoreError>((shown?, found.last, count))
        });
        let (data, last, count) = read.await?;
        let page = request.page(last, count);
        return Ok(ListOrStream::list(&L::list(data, page.clone()), &page));
    };
    options.page.refuse_for_stream(&[])?;
    acts::export_started(store, auth, L::NAME, format.media_type()).await?;
    let store = store.clone();
    let make = async move |out: Outgoing| {
        let sent = store.scan_long(move |tx| send_all(tx, &query, order, format, &out));
        // When the future is dropped, the thread finds that nobody receives its rows, and ends.
        tokio::time::timeout(HELD, sent).await.unwrap_or(Err(StreamError::Unwanted))
    };
    let [csv, ndjson] = L::FILES;
    let stream = exports.start(tenant, format.media_type(), make)?;
    Ok(ListOrStream::Stream(stream.named(if format == RowFormat::Csv { csv } else { ndjson })))
}

/// Sends all matches from one snapshot. Holds one slice of records in memory, however many there are.
fn send_all<L: ListView>(tx: &ReadTx, query: &L, order: Order, format: RowFormat, out: &Outgoing) -> Result<(), StreamError> {
    let mut rows = Rows::new(format, L::COLUMNS);
    out.send_blocking(rows.head()?)?;
    let mut after = None::<Vec<u8>>;
    loop {
        let last = if order.field == SortField::CreatedAt {
            let found = page(tx, query, order, after.as_deref(), SLICE)?;
            send(tx, query, found.records, &mut rows, out)?;
            found.last
        } else {
            let (ids, last) = slice(tx, query, order, after.as_deref(), SORTED)?;
            for ids in ids.chunks(SLICE) {
                let found = ids.iter().filter_map(|id| query.get(tx, *id).transpose()).collect::<Result<Vec<_>, _>>()?;
                send(tx, query, found, &mut rows, out)?;
            }
            last
        };
        if last.is_none() {
            return out.send_blocking(rows.end());
        }
        after = last;
    }
}

fn send<L: ListView>(tx: &ReadTx, query: &L, records: Vec<L::Record>, rows: &mut Rows, out: &Outgoing) -> Result<(), StreamError> {
    let mut labels = Labels::new(query.tenant_id());
    let shown: Result<Vec<L::Shown>, StoreError> = records.into_iter().map(|record| query.show(tx, &mut labels, record)).collect();
    out.send_blocking(rows.piece(&shown?)?)
}
