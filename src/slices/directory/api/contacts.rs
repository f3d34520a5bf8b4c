//! `/api/directory/contacts`: the collection and its records.

use poem::Request;
use poem_openapi::{Object, OpenApi, param::Path};
use serde::Serialize;

use tenantd_base::{
    clock::Timestamp,
    id::{TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_http::{
    bulk::{Removed, refuse_one},
    idempotency::IdempotencyKey,
    input::{Filter, Lenient, OptionalBody, target},
    need::{Allowed, DirectoryRead, DirectoryWrite},
    outgoing::{Exported, ListOrStream, Streams},
    page::Page,
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Changed, Empty, Found, Settled},
    wire::OneOrMany,
};
use tenantd_store::{Read, StoreError, WriteTx, events::Act};

use super::{
    super::{
        error::DirectoryError,
        listing::{ContactQuery, Labels},
        model::{self, Standing},
        service::{Directory, Subject, find_contact, user_labels},
    },
    Area,
    bodies::{ContactResults, CreateContact, CreateContacts, DeleteContact, DeleteContacts, UpdateContact, UpdateContacts},
    lists::{ListContacts, ListView, answer},
    resource::{RecordService, Resource},
    wire::Contact,
};

/// A page of contacts.
#[derive(Debug, Object, Serialize)]
pub(super) struct ContactList {
    /// The contacts on this page.
    data: Vec<Contact>,
    /// The position of this page in the list.
    page: Page,
}

impl Exported for ContactList {
    const CSV_EXAMPLE: &'static str = "id,name\r\nusr_01k9z7w3v5e8g9m2n4p6r8t0x1,Grace Hopper\r\n";
    const LINES_EXAMPLE: &'static str = "{\"name\":\"Grace Hopper\"}\n{\"_end\":true,\"count\":1}\n";
}

impl ListView for ContactQuery {
    type Shown = Contact;
    type List = ContactList;

    const NAME: &'static str = "contacts";
    const FILES: [&'static str; 2] = ["contacts.csv", "contacts.ndjson"];
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "external_id",
        "name",
        "email",
        "organization.id",
        "organization.name",
        "status",
        "created_at",
        "updated_at",
        "version",
    ];

    fn tenant_id(&self) -> TenantId {
        self.tenant_id
    }

    fn show(&self, tx: &impl Read, labels: &mut Labels, record: model::User) -> Result<Contact, StoreError> {
        let organization = match record.organization_id() {
            Some(id) => Some(labels.organization(tx, id)?),
            None => None,
        };
        Ok(Contact::new(record, organization))
    }

    fn list(data: Vec<Contact>, page: Page) -> ContactList {
        ContactList { data, page }
    }
}

pub(super) struct Contacts;

impl Resource for Contacts {
    type Id = UserId;
    type New = model::NewUser;
    type Change = model::ContactChange;
    type Record = model::User;
    type Shown = Contact;
    type Results = ContactResults;

    const PATH: &'static str = "/api/directory/contacts";
    const MEMBER: &'static str = "contacts";

    fn create(directory: &Directory, tx: &mut WriteTx, act: &mut Act, new: &model::NewUser) -> Result<model::User, DirectoryError> {
        let Standing::Contact { .. } = new.standing else { return Err(DirectoryError::IsStaff) };
        directory.create_user(tx, act, new)
    }

    fn update(
        directory: &Directory,
        tx: &mut WriteTx,
        act: &mut Act,
        id: UserId,
        expected: &ExpectedVersion,
        change: &model::ContactChange,
    ) -> Result<model::User, DirectoryError> {
        directory.update_contact(tx, act, id, expected, change)
    }

    fn subject(id: UserId) -> Subject {
        Subject::Contact(id)
    }

    fn name(record: &model::User) -> (UserId, u64) {
        (record.id, record.version)
    }

    fn show(_directory: &Directory, tx: &impl Read, _now: Timestamp, record: model::User) -> Result<Contact, DirectoryError> {
        let organization = user_labels(tx, &record)?.organization;
        Ok(Contact::new(record, organization))
    }
}

#[derive(Debug, Object)]
struct ContactTarget {
    /// The ID of the contact. Required unless the body has it.
    id: Option<UserId>,
}

#[derive(Debug, Object)]
struct RemoveContactTarget {
    /// The ID of the contact. Required unless the body has it.
    id: Option<UserId>,
    /// The ID of another contact that receives the open tickets and devices of this one.
    reassign_to: Option<UserId>,
}

#[derive(Debug, Object)]
struct ReassignContact {
    /// The ID of another contact that receives the open tickets and devices of this one.
    reassign_to: Option<UserId>,
}

type Answer = OneOrMany<Contact, ContactResults>;

pub(crate) struct ContactsApi {
    pub(crate) records: RecordService,
    pub(crate) exports: Streams,
}

#[OpenApi(prefix_path = "/api/directory/contacts", tag = "Area::Directory")]
impl ContactsApi {
    /// List contacts
    ///
    /// Returns the contacts that match all filters. Contacts are people at organizations. They sign in only to the
    /// portal, and only with access. `format=csv` and
    /// `format=ndjson`, or an `Accept` header with only `text/csv` or `application/x-ndjson`, stream all matches. The last line of
    /// `ndjson` is `{"_end":true,"count":…}`. A stream does not allow `limit`, `cursor` and `include_total`.
    #[oai(path = "/", method = "get", operation_id = "list_contacts")]
    async fn list_contacts(
        &self,
        auth: Allowed<DirectoryRead>,
        request: &Request,
        query: Filter<ListContacts>,
    ) -> Result<ListOrStream<ContactList>, Problem> {
        let (wanted, options) = query.0.query(&auth.principal)?;
        answer(&self.records.store, &self.exports, &auth, request, wanted, options).await
    }

    /// Create contacts
    ///
    /// Creates one contact, or up to 100 in `contacts`. A bulk request creates all contacts or none, unless `atomic` is false, and
    /// can read and write up to 4 MiB of records. A key restricted to organizations must specify one of them.
    #[oai(path = "/", method = "post", operation_id = "create_contacts")]
    async fn create_contacts(
        &self,
        auth: Allowed<DirectoryWrite>,
        idempotency_key: IdempotencyKey,
        body: Lenient<OneOrMany<CreateContact, CreateContacts>>,
    ) -> Result<Settled<Answer>, Problem> {
        match body.0 {
            OneOrMany::One(one) => self.records.create_one::<Contacts, _>(&auth, idempotency_key, one.into()).await,
            OneOrMany::Many(many) => {
                let news = many.contacts.into_iter().map(Into::into).collect();
                self.records.create_many::<Contacts, _>(&auth, idempotency_key, news, many.atomic.unwrap_or(true)).await
            }
        }
    }

    /// Change contacts
    ///
    /// Applies a merge patch (RFC 7396) to the contact in `?id=` or `id`. With `ids` and `patch`, changes up to 100 contacts, all
    /// or none. A bulk request does not allow `If-Match`. A new address or organization ends the contact's access to the portal.
    #[oai(path = "/", method = "patch", operation_id = "update_contacts")]
    async fn update_contacts(
        &self,
        auth: Allowed<DirectoryWrite>,
        query: Filter<ContactTarget>,
        if_match: IfMatch,
        body: Lenient<OneOrMany<UpdateContact, UpdateContacts>>,
    ) -> Result<Changed<Answer>, Problem> {
        match body.0 {
            OneOrMany::One(one) => {
                let id = target(query.0.id, one.id)?;
                self.records.update_one::<Contacts, _>(&auth, id, if_match, one.patch.into()).await
            }
            OneOrMany::Many(many) => {
                refuse_one(query.0.id.is_some(), if_match.is_given())?;
                self.records.update_many::<Contacts, _>(&auth, many.ids, many.patch.into()).await
            }
        }
    }

    /// Delete contacts
    ///
    /// Deletes the contact in `?id=` or `id`. With `ids`, deletes up to 100 contacts, all or none. If other records refer to a
    /// contact, the response is `409 in_use` with their counts in `dependents`. `reassign_to` first moves these records to another
    /// contact, up to 10,000 per request. This requires the write scopes of these records. Staff are not contacts: delete them with
    /// `/api/admin/users`.
    #[oai(path = "/", method = "delete", operation_id = "delete_contacts")]
    async fn delete_contacts(
        &self,
        auth: Allowed<DirectoryWrite>,
        query: Filter<RemoveContactTarget>,
        if_match: IfMatch,
        body: OptionalBody<OneOrMany<DeleteContact, DeleteContacts>>,
    ) -> Result<Removed<ContactResults>, Problem> {
        match body.0 {
            OneOrMany::One(one) => {
                let id = target(query.0.id, one.id)?;
                self.records.remove_one::<Contacts>(&auth, id, if_match, query.0.reassign_to).await?;
                Ok(Removed::one())
            }
            OneOrMany::Many(many) => {
                refuse_one(query.0.id.is_some(), if_match.is_given())?;
                super::refuse_reassignment(query.0.reassign_to.is_some())?;
                self.records.remove_many::<Contacts>(&auth, many.ids).await
            }
        }
    }
}

pub(crate) struct ContactApi {
    pub(crate) records: RecordService,
}

#[OpenApi(prefix_path = "/api/directory/contacts", tag = "Area::Directory")]
impl ContactApi {
    /// Read a contact
    ///
    /// Returns the contact with its `ETag`. With `If-None-Match`, returns 304 if the contact has not changed.
    #[oai(path = "/:id", method = "get", operation_id = "read_contact")]
    async fn read_contact(
        &self,
        auth: Allowed<DirectoryRead>,
        id: Path<UserId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<Contact>, Problem> {
        let found = self.records.store.read(|tx| {
            let user = find_contact(tx, auth.principal.tenant_id, &auth.principal.reach, id.0)?;
            let organization = user_labels(tx, &user)?.organization;
            Ok::<_, DirectoryError>(Contact::new(user, organization))
        })?;
        let version = found.version;
        Ok(if if_none_match.knows(version) { Found::not_modified(version) } else { Found::new(&found, version) })
    }

    /// Change a contact by its path
    ///
    /// Changes the contact in the path. Works like `PATCH` with `?id=`.
    #[oai(path = "/:id", method = "patch", operation_id = "update_contact_by_id")]
    async fn update_contact_by_id(
        &self,
        auth: Allowed<DirectoryWrite>,
        id: Path<UserId>,
        if_match: IfMatch,
        body: Lenient<UpdateContact>,
    ) -> Result<Changed<Contact>, Problem> {
        let id = target(Some(id.0), body.0.id)?;
        self.records.update_one::<Contacts, _>(&auth, id, if_match, body.0.patch.into()).await
    }

    /// Delete a contact by its path
    ///
    /// Deletes the contact in the path. Works like `DELETE` with `?id=`.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_contact_by_id")]
    async fn delete_contact_by_id(
        &self,
        auth: Allowed<DirectoryWrite>,
        id: Path<UserId>,
        query: Filter<ReassignContact>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        self.records.remove_one::<Contacts>(&auth, id.0, if_match, query.0.reassign_to).await?;
        Ok(Empty::new())
    }
}
