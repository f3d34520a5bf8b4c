//! Lists of the directory's records: their parameters, and pages and streams of what matches.

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
    outgoing::{Broken, Exported, ListOrStream, Outgoing, Streams},
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

/// How many rows of a stream are made and sent at a time.
const SLICE: usize = 200;
/// How many places are found at a time for an order that has no index.
const SORTED: usize = 10_000;
/// A store cannot reuse what an open snapshot may still read. Anyone who takes longer asks again with filters.
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
    DirectorySort, "DirectorySort", "The order of a list.";
    DeviceSort, "DeviceSort", "The order of a list of devices.";
}

/// A word such as `-name` as an order.
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

/// How a list is ordered, cut and written.
#[derive(Debug)]
pub(super) struct Manner {
    order: Order,
    format: Option<DirectoryFormat>,
    page: PageQuery,
}

#[derive(Debug, Object)]
pub(super) struct ListOrganizations {
    /// The whole name, without case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    name: Option<Vec<Text<200>>>,
    /// The id in the system that the organization comes from.
    #[oai(validator(min_items = 1, max_items = 50))]
    external_id: Option<Vec<Text<200>>>,
    /// A part of the name or the external id, without case and accents.
    q: Option<Text<200>>,
    /// Organizations created after this time.
    created_after: Option<Timestamp>,
    /// Organizations created before this time.
    created_before: Option<Timestamp>,
    /// Organizations whose record changed after this time.
    updated_after: Option<Timestamp>,
    /// Organizations whose record last changed before this time.
    updated_before: Option<Timestamp>,
    /// The order; a `-` reverses it. By creation, the oldest first, when absent.
    sort: Option<DirectorySort>,
    /// `csv` and `ndjson` stream all organizations that match, without pages.
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
    pub(super) fn query(self, principal: &Principal) -> Result<(OrganizationQuery, Manner), Problem> {
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
        Ok((query, Manner { order, format: self.format, page: self.page }))
    }
}

#[derive(Debug, Object)]
pub(super) struct ListContacts {
    /// Contacts of one of these organizations.
    #[oai(validator(min_items = 1, max_items = 200))]
    organization_id: Option<Vec<OrganizationId>>,
    /// The whole name, without case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    name: Option<Vec<Text<200>>>,
    /// The e-mail address, in any case.
    #[oai(validator(min_items = 1, max_items = 50))]
    email: Option<Vec<Text<254>>>,
    /// The id in the system that the contact comes from.
    #[oai(validator(min_items = 1, max_items = 50))]
    external_id: Option<Vec<Text<200>>>,
    /// Whether the contact is still active.
    #[oai(validator(min_items = 1, max_items = 2))]
    status: Option<Vec<Word<UserStatus>>>,
    /// A part of the name, the e-mail address or the external id, without case and accents.
    q: Option<Text<200>>,
    /// Contacts created after this time.
    created_after: Option<Timestamp>,
    /// Contacts created before this time.
    created_before: Option<Timestamp>,
    /// Contacts whose record changed after this time.
    updated_after: Option<Timestamp>,
    /// Contacts whose record last changed before this time.
    updated_before: Option<Timestamp>,
    /// The order; a `-` reverses it. By creation, the oldest first, when absent.
    sort: Option<DirectorySort>,
    /// `csv` and `ndjson` stream all contacts that match, without pages.
    format: Option<DirectoryFormat>,
    #[oai(flatten)]
    page: PageQuery,
}

impl ListContacts {
    pub(super) fn query(self, principal: &Principal) -> Result<(ContactQuery, Manner), Problem> {
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
        Ok((query, Manner { order, format: self.format, page: self.page }))
    }
}

#[derive(Debug, Object)]
pub(super) struct ListDevices {
    #[oai(flatten)]
    pub(super) filters: DeviceFilters,
    /// The order; a `-` reverses it. By creation, the oldest first, when absent.
    sort: Option<DeviceSort>,
    /// `csv` and `ndjson` stream all devices that match, without pages.
    format: Option<DirectoryFormat>,
    #[oai(flatten)]
    page: PageQuery,
}

impl ListDevices {
    pub(super) fn parts(self) -> (DeviceFilters, Manner) {
        let order = order(self.sort.map_or("created_at", DeviceSort::name));
        (self.filters, Manner { order, format: self.format, page: self.page })
    }
}

/// What a list of one kind shows.
pub(super) trait Shows: Listing + Clone + Send + Sync + 'static {
    type Shown: Serialize + Send;
    type List: Serialize + Exported;

    /// What the list is called, also in the names of files.
    const NAME: &'static str;
    const FILES: [&'static str; 2];
    const COLUMNS: &'static [&'static str];

    fn tenant_id(&self) -> TenantId;
    fn show(&self, tx: &impl Read, labels: &mut Labels, record: Self::Record) -> Result<Self::Shown, StoreError>;
    fn list(data: Vec<Self::Shown>, page: Page) -> Self::List;
}

/// Answers with a page, or with a stream of everything.
pub(super) async fn answer<L: Shows>(
    store: &Store,
    exports: &Streams,
    auth: &Allowed<DirectoryRead>,
    request: &Request,
    query: L,
    manner: Manner,
) -> Result<ListOrStream<L::List>, Problem> {
    let format = match manner.format {
        Some(DirectoryFormat::Json) => None,
        Some(DirectoryFormat::Csv) => Some(RowFormat::Csv),
        Some(DirectoryFormat::Ndjson) => Some(RowFormat::Ndjson),
        None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
    };
    let (tenant, order) = (auth.principal.tenant_id, manner.order);
    let Some(format) = format else {
        let request = PageRequest::new(&auth.context, &manner.page)?;
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
    manner.page.refuse_for_stream(&[])?;
    acts::export_started(store, auth, L::NAME, format.media_type()).await?;
    let store = store.clone();
    let make = async move |out: Outgoing| {
        let sent = store.scan_long(move |tx| send_all(tx, &query, order, format, &out));
        // Without its future the thread finds that nobody takes what it sends, and ends.
        tokio::time::timeout(HELD, sent).await.unwrap_or(Err(Broken::Unwanted))
    };
    let [csv, ndjson] = L::FILES;
    let stream = exports.start(tenant, format.media_type(), make)?;
    Ok(ListOrStream::Stream(stream.named(if format == RowFormat::Csv { csv } else { ndjson })))
}

/// Sends everything that matches, as it was at one moment. Memory holds one slice of records, however many there are.
fn send_all<L: Shows>(tx: &ReadTx, query: &L, order: Order, format: RowFormat, out: &Outgoing) -> Result<(), Broken> {
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

fn send<L: Shows>(tx: &ReadTx, query: &L, records: Vec<L::Record>, rows: &mut Rows, out: &Outgoing) -> Result<(), Broken> {
    let mut labels = Labels::new(query.tenant_id());
    let shown: Result<Vec<L::Shown>, StoreError> = records.into_iter().map(|record| query.show(tx, &mut labels, record)).collect();
    out.send_blocking(rows.piece(&shown?)?)
}
