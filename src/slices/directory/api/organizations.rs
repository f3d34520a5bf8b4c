//! `/api/directory/organizations`: the collection and its records.

use poem::Request;
use poem_openapi::{Object, OpenApi, param::Path};
use serde::Serialize;

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{OrganizationId, TenantId},
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
        listing::{Labels, OrganizationQuery},
        model,
        service::{Directory, Subject, find_organization},
    },
    Area,
    bodies::{
        CreateOrganization, CreateOrganizations, DeleteOrganization, DeleteOrganizations, OrganizationResults, UpdateOrganization,
        UpdateOrganizations,
    },
    lists::{ListOrganizations, ListView, answer},
    resource::{RecordService, Resource},
    wire::Organization,
};

/// A page of organizations.
#[derive(Debug, Object, Serialize)]
pub(super) struct OrganizationList {
    /// The organizations on this page.
    data: Vec<Organization>,
    /// The position of this page in the list.
    page: Page,
}

impl Exported for OrganizationList {
    const CSV_EXAMPLE: &'static str = "id,name\r\norg_01k9z7w3v5e8g9m2n4p6r8t0x1,Acme\r\n";
    const LINES_EXAMPLE: &'static str = "{\"name\":\"Acme\"}\n{\"_end\":true,\"count\":1}\n";
}

impl ListView for OrganizationQuery {
    type Shown = Organization;
    type List = OrganizationList;

    const NAME: &'static str = "organizations";
    const FILES: [&'static str; 2] = ["organizations.csv", "organizations.ndjson"];
    const COLUMNS: &'static [&'static str] = &["id", "external_id", "name", "created_at", "updated_at", "version"];

    fn tenant_id(&self) -> TenantId {
        self.tenant_id
    }

    fn show(&self, _tx: &impl Read, _labels: &mut Labels, record: model::Organization) -> Result<Organization, StoreError> {
        Ok(record.into())
    }

    fn list(data: Vec<Organization>, page: Page) -> OrganizationList {
        OrganizationList { data, page }
    }
}

pub(super) struct Organizations;

impl Resource for Organizations {
    type Id = OrganizationId;
    type New = model::NewOrganization;
    type Change = model::OrganizationChange;
    type Record = model::Organization;
    type Shown = Organization;
    type Results = OrganizationResults;

    const PATH: &'static str = "/api/directory/organizations";
    const MEMBER: &'static str = "organizations";

    fn create(
        directory: &Directory,
        tx: &mut WriteTx,
        act: &mut Act,
        new: &model::NewOrganization,
    ) -> Result<model::Organization, DirectoryError> {
        if act.reach != Reach::Everything {
            return Err(DirectoryError::OrganizationsOnly);
        }
        directory.create_organization(tx, act, new)
    }

    fn update(
        _directory: &Directory,
        tx: &mut WriteTx,
        act: &mut Act,
        id: OrganizationId,
        expected: &ExpectedVersion,
        change: &model::OrganizationChange,
    ) -> Result<model::Organization, DirectoryError> {
        Directory::update_organization(tx, act, id, expected, change)
    }

    fn subject(id: OrganizationId) -> Subject {
        Subject::Organization(id)
    }

    fn name(record: &model::Organization) -> (OrganizationId, u64) {
        (record.id, record.version)
    }

    fn show(
        _directory: &Directory,
        _tx: &impl Read,
        _now: Timestamp,
        record: model::Organization,
    ) -> Result<Organization, DirectoryError> {
        Ok(record.into())
    }
}

#[derive(Debug, Object)]
struct OrganizationTarget {
    /// The ID of the organization. Required unless the body has it.
    id: Option<OrganizationId>,
}

#[derive(Debug, Object)]
struct RemoveOrganizationTarget {
    /// The ID of the organization. Required unless the body has it.
    id: Option<OrganizationId>,
    /// The ID of another organization that receives the devices, contacts, open tickets and cloud providers of this one.
    reassign_to: Option<OrganizationId>,
}

#[derive(Debug, Object)]
struct ReassignOrganization {
    /// The ID of another organization that receives the devices, contacts, open tickets and cloud providers of this one.
    reassign_to: Option<OrganizationId>,
}

type Answer = OneOrMany<Organization, OrganizationResults>;

pub(crate) struct OrganizationsApi {
    pub(crate) records: RecordService,
    pub(crate) exports: Streams,
}

#[OpenApi(prefix_path = "/api/directory/organizations", tag = "Area::Directory")]
impl OrganizationsApi {
    /// List organizations
    ///
    /// Returns the organizations that match all filters. `format=csv` and `format=ndjson`, or an `Accept` header with only
    /// `text/csv` or `application/x-ndjson`, stream all matches. The last line of `ndjson` is `{"_end":true,"count":…}`. A stream
    /// does not allow `limit`, `cursor` and `include_total`.
    #[oai(path = "/", method = "get", operation_id = "list_organizations")]
    async fn list_organizations(
        &self,
        auth: Allowed<DirectoryRead>,
        request: &Request,
        query: Filter<ListOrganizations>,
    ) -> Result<ListOrStream<OrganizationList>, Problem> {
        let (wanted, options) = query.0.query(&auth.principal)?;
        answer(&self.records.store, &self.exports, &auth, request, wanted, options).await
    }

    /// Create organizations
    ///
    /// Creates one organization, or up to 100 in `organizations`. A bulk request creates all organizations or none, unless `atomic`
    /// is false, and can read and write up to 4 MiB of records. A caller restricted to organizations cannot create organizations.
    #[oai(path = "/", method = "post", operation_id = "create_organizations")]
    async fn create_organizations(
        &self,
        auth: Allowed<DirectoryWrite>,
        idempotency_key: IdempotencyKey,
        body: Lenient<OneOrMany<CreateOrganization, CreateOrganizations>>,
    ) -> Result<Settled<Answer>, Problem> {
        match body.0 {
            OneOrMany::One(one) => self.records.create_one::<Organizations, _>(&auth, idempotency_key, one.into()).await,
            OneOrMany::Many(many) => {
                let news = many.organizations.into_iter().map(Into::into).collect();
                self.records.create_many::<Organizations, _>(&auth, idempotency_key, news, many.atomic.unwrap_or(true)).await
            }
        }
    }

    /// Change organizations
    ///
    /// Applies a merge patch (RFC 7396) to the organization in `?id=` or `id`. With `ids` and `patch`, changes up to 100
    /// organizations, all or none. A bulk request does not allow `If-Match`.
    #[oai(path = "/", method = "patch", operation_id = "update_organizations")]
    async fn update_organizations(
        &self,
        auth: Allowed<DirectoryWrite>,
        query: Filter<OrganizationTarget>,
        if_match: IfMatch,
        body: Lenient<OneOrMany<UpdateOrganization, UpdateOrganizations>>,
    ) -> Result<Changed<Answer>, Problem> {
        match body.0 {
            OneOrMany::One(one) => {
                let id = target(query.0.id, one.id)?;
                self.records.update_one::<Organizations, _>(&auth, id, if_match, one.patch.into()).await
            }
            OneOrMany::Many(many) => {
                refuse_one(query.0.id.is_some(), if_match.is_given())?;
                self.records.update_many::<Organizations, _>(&auth, many.ids, many.patch.into()).await
            }
        }
    }

    /// Delete organizations
    ///
    /// Deletes the organization in `?id=` or `id`. With `ids`, deletes up to 100 organizations, all or none. If other records refer
    /// to an organization, the response is `409 in_use` with their counts in `dependents`. `reassign_to` first moves these records
    /// to another organization, up to 10,000 per request. This requires the write scopes of these records. The backup settings of
    /// the organization cannot move; they are deleted with it.
    #[oai(path = "/", method = "delete", operation_id = "delete_organizations")]
    async fn delete_organizations(
        &self,
        auth: Allowed<DirectoryWrite>,
        query: Filter<RemoveOrganizationTarget>,
        if_match: IfMatch,
        body: OptionalBody<OneOrMany<DeleteOrganization, DeleteOrganizations>>,
    ) -> Result<Removed<OrganizationResults>, Problem> {
        match body.0 {
            OneOrMany::One(one) => {
                let id = target(query.0.id, one.id)?;
                self.records.remove_one::<Organizations>(&auth, id, if_match, query.0.reassign_to).await?;
                Ok(Removed::one())
            }
            OneOrMany::Many(many) => {
                refuse_one(query.0.id.is_some(), if_match.is_given())?;
                super::refuse_reassignment(query.0.reassign_to.is_some())?;
                self.records.remove_many::<Organizations>(&auth, many.ids).await
            }
        }
    }
}

pub(crate) struct OrganizationApi {
    pub(crate) records: RecordService,
}

#[OpenApi(prefix_path = "/api/directory/organizations", tag = "Area::Directory")]
impl OrganizationApi {
    /// Read an organization
    ///
    /// Returns the organization with its `ETag`. With `If-None-Match`, returns 304 if the organization has not changed.
    #[oai(path = "/:id", method = "get", operation_id = "read_organization")]
    async fn read_organization(
        &self,
        auth: Allowed<DirectoryRead>,
        id: Path<OrganizationId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<Organization>, Problem> {
        let found = self.records.store.read(|tx| find_organization(tx, auth.principal.tenant_id, &auth.principal.reach, id.0))?;
        let version = found.version;
        Ok(if if_none_match.knows(version) {
            Found::not_modified(version)
        } else {
            Found::new(&Organization::from(found), version)
        })
    }

    /// Change an organization by its path
    ///
    /// Changes the organization in the path. Works like `PATCH` with `?id=`.
    #[oai(path = "/:id", method = "patch", operation_id = "update_organization_by_id")]
    async fn update_organization_by_id(
        &self,
        auth: Allowed<DirectoryWrite>,
        id: Path<OrganizationId>,
        if_match: IfMatch,
        body: Lenient<UpdateOrganization>,
    ) -> Result<Changed<Organization>, Problem> {
        let id = target(Some(id.0), body.0.id)?;
        self.records.update_one::<Organizations, _>(&auth, id, if_match, body.0.patch.into()).await
    }

    /// Delete an organization by its path
    ///
    /// Deletes the organization in the path. Works like `DELETE` with `?id=`.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_organization_by_id")]
    async fn delete_organization_by_id(
        &self,
        auth: Allowed<DirectoryWrite>,
        id: Path<OrganizationId>,
        query: Filter<ReassignOrganization>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        self.records.remove_one::<Organizations>(&auth, id.0, if_match, query.0.reassign_to).await?;
        Ok(Empty::new())
    }
}
