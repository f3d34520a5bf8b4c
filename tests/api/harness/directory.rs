//! Organizations, people and devices for tests, created through the service of the directory.

use tenantd_base::{
    access::Role,
    id::{OrganizationId, RoleId, TenantId},
    versions::ExpectedVersion,
};
use tenantd_directory::{Device, DeviceClass, Directory, DirectoryError, NewOrganization, NewUser, Standing};
use tenantd_store::{
    WriteTx,
    events::{Act, Actor as EventActor, Intent},
};

use super::Tenant;

impl Tenant<'_> {
    async fn put<T: Send + 'static>(
        &self,
        mut make: impl FnMut(Directory, &mut WriteTx, &mut Act) -> Result<T, DirectoryError> + Send + 'static,
    ) -> T {
        let tenant: TenantId = self.id.parse().unwrap();
        let intent = Intent::new(tenant, self.app.clock.now(), EventActor::system("test"));
        let app = &self.app.running.app;
        let directory = app.slices.directory;
        app.store.write(move |tx| make(directory, tx, &mut intent.begin())).await.unwrap()
    }

    /// Creates an organization and returns its id.
    pub async fn organization(&self, name: &str) -> String {
        let new = NewOrganization { external_id: None, name: name.to_owned() };
        self.put(move |directory, tx, act| directory.create_organization(tx, act, &new)).await.id.to_string()
    }

    /// Creates a contact of an organization and returns its id.
    pub async fn contact(&self, organization: &str, email: &str) -> String {
        let organization: OrganizationId = organization.parse().unwrap();
        let (name, email) = (email.split('@').next().unwrap().to_owned(), email.to_owned());
        let user = self.put(move |directory, tx, act| directory.create_contact(tx, act, &name, Some(&email), Some(organization)));
        user.await.id.to_string()
    }

    /// A staff user with a role that the service does not assign in this tenant, as an old import could have.
    pub async fn odd_staff(&self, email: &str, role: Role) {
        let new = NewUser {
            external_id: None,
            email: Some(email.to_owned()),
            name: email.to_owned(),
            standing: Standing::Staff { role: role.into(), organization_ids: None },
        };
        self.put(move |directory, tx, act| directory.create_user(tx, act, &new)).await;
    }

    /// Removes a role that rules still give, as an import of rules without their role does.
    pub async fn lose_role(&self, role: &str) {
        let role: RoleId = role.parse().unwrap();
        self.put(move |directory, tx, act| directory.remove_role(tx, act, role, &ExpectedVersion::Any, 0)).await;
    }

    /// Creates a device of an organization and returns its id.
    pub async fn device(&self, organization: &str, name: &str) -> String {
        let new = Device {
            name: name.to_owned(),
            class: DeviceClass::Workstation,
            organization_id: organization.parse().unwrap(),
            ..Device::default()
        };
        let device = self.put(move |directory, tx, act| {
            let new = Device { collected_at: act.now, ..new.clone() };
            directory.create_device(tx, act, new)
        });
        device.await.id.to_string()
    }
}
