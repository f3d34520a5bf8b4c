//! The filters for devices and their conversion to a query. The list of devices and the reports share them.

use poem_openapi::Object;

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    fault::Fault,
    id::{OrganizationId, TenantId, UserId},
};
use tenantd_http::{bounded::Text, wire::Word};

use super::super::{
    listing::{AddressFilter, DetailsQuery, DeviceQuery, Folded, MacFilter, SoftwareFilter},
    model::{AgentStatus, DeviceClass, Health, Lifecycle, OsFamily, PatchStatus, WarrantyStatus},
    service::Directory,
};

/// Selects the devices of a list or a report. The longest list in one filter fits into the head of a request.
#[derive(Clone, Debug, Object)]
pub struct DeviceFilters {
    /// Returns only devices of these organizations.
    #[oai(validator(min_items = 1, max_items = 200))]
    organization_id: Option<Vec<OrganizationId>>,
    /// Returns only devices at these sites. Matches the whole name, ignoring case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    site: Option<Vec<Text<200>>>,
    /// Returns only devices of these kinds.
    #[oai(validator(min_items = 1, max_items = 10))]
    class: Option<Vec<Word<DeviceClass>>>,
    /// Returns only devices with an operating system of these families.
    #[oai(validator(min_items = 1, max_items = 8))]
    os_family: Option<Vec<Word<OsFamily>>>,
    /// Returns only devices whose operating system name contains one of these texts, ignoring case and accents. A text in double
    /// quotes must be the whole name.
    #[oai(validator(min_items = 1, max_items = 50))]
    os_name: Option<Vec<Text<200>>>,
    /// Returns only devices with one of these operating system versions. Matches the whole version, alone or after the name of the
    /// system, as in `Ubuntu 24.04`, ignoring case.
    #[oai(validator(min_items = 1, max_items = 50))]
    os_version: Option<Vec<Text<100>>>,
    /// Returns only devices with one of these names. Matches the whole name, ignoring case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    name: Option<Vec<Text<200>>>,
    /// Returns only devices with one of these IDs in their source system.
    #[oai(validator(min_items = 1, max_items = 50))]
    external_id: Option<Vec<Text<200>>>,
    /// Returns only devices with one of these host names, with or without the domain, ignoring case.
    #[oai(validator(min_items = 1, max_items = 50))]
    hostname: Option<Vec<Text<255>>>,
    /// Returns only devices of these owners.
    #[oai(validator(min_items = 1, max_items = 200))]
    owner_id: Option<Vec<UserId>>,
    /// Returns only devices with one of these values in any custom field. Matches the whole value, ignoring case and accents.
    #[oai(validator(min_items = 1, max_items = 20))]
    custom_field: Option<Vec<Text<1000>>>,
    /// Returns only devices whose agent has one of these statuses at the time of the request.
    #[oai(validator(min_items = 1, max_items = 4))]
    agent_status: Option<Vec<AgentStatus>>,
    /// Returns only devices whose agent was last seen before this time. Agents that were never seen match neither this nor
    /// `last_seen_after`.
    last_seen_before: Option<Timestamp>,
    /// Returns only devices whose agent was last seen after this time.
    last_seen_after: Option<Timestamp>,
    /// Returns only devices whose manufacturer contains one of these texts, ignoring case and accents. A text in double quotes must
    /// be the whole name.
    #[oai(validator(min_items = 1, max_items = 50))]
    manufacturer: Option<Vec<Text<200>>>,
    /// Returns only devices whose model contains one of these texts, ignoring case and accents. A text in double quotes must be the
    /// whole name.
    #[oai(validator(min_items = 1, max_items = 50))]
    model: Option<Vec<Text<200>>>,
    /// Returns only devices with one of these serial numbers. Matches the whole number, ignoring case.
    #[oai(validator(min_items = 1, max_items = 50))]
    serial: Option<Vec<Text<200>>>,
    /// Returns only devices with one of these IP addresses, or with an address in a network such as `192.0.2.0/24`. Includes the
    /// primary, public and interface addresses.
    #[oai(validator(min_items = 1, max_items = 50))]
    ip: Option<Vec<Text<50>>>,
    /// Returns only devices with one of these MAC addresses, in any notation. The first three bytes alone match all addresses of a
    /// manufacturer.
    #[oai(validator(min_items = 1, max_items = 50))]
    mac: Option<Vec<Text<32>>>,
    /// Returns only devices with at least one of these tags, ignoring case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    tag: Option<Vec<Text<100>>>,
    /// Returns only devices in these stages of their life cycle.
    #[oai(validator(min_items = 1, max_items = 5))]
    lifecycle: Option<Vec<Word<Lifecycle>>>,
    /// Returns only devices with one of these warranty statuses. A device without warranty data has the status `unknown`.
    #[oai(validator(min_items = 1, max_items = 5))]
    warranty_status: Option<Vec<Word<WarrantyStatus>>>,
    /// Returns only devices whose warranty ends before this time. Devices without a known end do not match.
    warranty_ends_before: Option<Timestamp>,
    /// Returns only devices with one of these update statuses. A device without update data has the status `unknown`.
    #[oai(validator(min_items = 1, max_items = 5))]
    patch_status: Option<Vec<Word<PatchStatus>>>,
    /// Returns only devices that need a restart (`true`) or not (`false`). `false` includes devices for which this is unknown.
    reboot_required: Option<bool>,
    /// Returns only eligible devices with a restore point from the last 30 days (`true`) or without one (`false`), as in the backup
    /// report. Devices that are not eligible for backup, such as printers and retired devices, match neither.
    protected: Option<bool>,
    /// Returns only devices with at least one of these packages. The value is the whole name, ignoring case, or the start of a name
    /// followed by `*`. To match versions, append `>=`, `>`, `<`, `<=` or `=` and a version, as in `Google Chrome<131.0.6778`. A
    /// version starts with a number. Versions are compared number by number, and a missing part counts as 0. An epoch is compared
    /// first: `1:1.0` is greater than `2.0`. Pre-release words (`dev`, `alpha`, `beta`, `pre`, `rc`) sort before the plain number,
    /// other texts after it: `2.0-rc1` is less than `2.0`, and `1.0.2a` is greater than `1.0.2`. Packages without a known version
    /// match no comparison.
    #[oai(validator(min_items = 1, max_items = 20))]
    software: Option<Vec<Text<400>>>,
    /// Returns only devices that lack at least one of these packages, in the syntax of `software`.
    #[oai(validator(min_items = 1, max_items = 20))]
    software_missing: Option<Vec<Text<400>>>,
    /// Returns only devices with one of these health states.
    #[oai(validator(min_items = 1, max_items = 4))]
    health: Option<Vec<Word<Health>>>,
    /// Returns only devices whose name, host name, serial number, model, owner's name or tags contain this text, ignoring case and
    /// accents.
    q: Option<Text<200>>,
    /// Returns only devices created after this time.
    created_after: Option<Timestamp>,
    /// Returns only devices created before this time.
    created_before: Option<Timestamp>,
    /// Returns only devices last changed after this time.
    updated_after: Option<Timestamp>,
    /// Returns only devices last changed before this time.
    updated_before: Option<Timestamp>,
}

/// The caller and the time of a query.
#[derive(Clone, Debug)]
pub struct QueryContext {
    pub tenant_id: TenantId,
    pub reach: Reach,
    pub now: Timestamp,
    pub directory: Directory,
}

fn words<T: Copy>(words: Option<&Vec<Word<T>>>) -> Vec<T> {
    words.into_iter().flatten().map(|word| word.0).collect()
}

/// Parses filters and collects all validation errors.
#[derive(Default)]
struct Reader(Vec<Fault>);

impl Reader {
    fn fault(&mut self, parameter: &str, message: String, suggestion: Option<String>) {
        self.0.push(Fault::parameter(parameter, "wrong_form", message).with_suggestion(suggestion));
    }

    fn texts<const MAX: usize>(&mut self, parameter: &'static str, texts: Option<&Vec<Text<MAX>>>) -> Vec<Folded> {
        let mut read = Vec::new();
        for text in texts.into_iter().flatten() {
            let folded = Folded::new(text.as_str());
            if folded.is_empty() {
                self.fault(parameter, format!("{parameter} must not be blank"), None);
            } else {
                read.push(folded);
            }
        }
        read
    }

    fn addresses(&mut self, texts: Option<&Vec<Text<50>>>) -> Vec<AddressFilter> {
        let mut read = Vec::new();
        for text in texts.into_iter().flatten().map(Text::as_str) {
            match AddressFilter::parse(text) {
                Some(address) => read.push(address),
                None => self.fault("ip", format!("{text} is not an IP address or a network such as 192.0.2.0/24"), None),
            }
        }
        read
    }

    fn macs(&mut self, texts: Option<&Vec<Text<32>>>) -> Vec<MacFilter> {
        let mut read = Vec::new();
        for text in texts.into_iter().flatten().map(Text::as_str) {
            match MacFilter::parse(text) {
                Some(mac) => read.push(mac),
                None => self.fault("mac", format!("{text} is not a MAC address or the first three bytes of one"), None),
            }
        }
        read
    }

    fn software(&mut self, parameter: &'static str, texts: Option<&Vec<Text<400>>>) -> Vec<SoftwareFilter> {
        let mut read = Vec::new();
        for text in texts.into_iter().flatten().map(Text::as_str) {
            match SoftwareFilter::parse(text) {
                Ok(package) => read.push(package),
                Err(message) => self.fault(parameter, format!("{text}: {message}"), corrected(text)),
            }
        }
        read
    }
}

/// Suggests a fix for the comparison operators of other languages.
fn corrected(text: &str) -> Option<String> {
    [("==", "="), ("=>", ">="), ("=<", "<=")].iter().find_map(|(wrong, right)| {
        let corrected = text.replacen(wrong, right, 1);
        (corrected != text && SoftwareFilter::parse(&corrected).is_ok()).then_some(corrected)
    })
}

impl DeviceFilters {
    pub fn query(&self, query_context: QueryContext) -> Result<DeviceQuery, Vec<Fault>> {
        let mut reader = Reader::default();
        let details = DetailsQuery {
            os_families: words(self.os_family.as_ref()),
            os_names: reader.texts("os_name", self.os_name.as_ref()),
            os_versions: reader.texts("os_version", self.os_version.as_ref()),
            hostnames: reader.texts("hostname", self.hostname.as_ref()),
            custom_fields: reader.texts("custom_field", self.custom_field.as_ref()),
            manufacturers: reader.texts("manufacturer", self.manufacturer.as_ref()),
            models: reader.texts("model", self.model.as_ref()),
            serials: reader.texts("serial", self.serial.as_ref()),
            addresses: reader.addresses(self.ip.as_ref()),
            macs: reader.macs(self.mac.as_ref()),
            tags: reader.texts("tag", self.tag.as_ref()),
            warranty_statuses: words(self.warranty_status.as_ref()),
            warranty_ends_before: self.warranty_ends_before,
            patch_statuses: words(self.patch_status.as_ref()),
            reboot_required: self.reboot_required,
            software: reader.software("software", self.software.as_ref()),
            software_missing: reader.software("software_missing", self.software_missing.as_ref()),
        };
        let QueryContext { tenant_id, reach, now, directory } = query_context;
        let query = DeviceQuery {
            tenant_id,
            reach,
            now,
            directory,
            organizations: self.organization_id.clone().unwrap_or_default(),
            sites: reader.texts("site", self.site.as_ref()),
            classes: words(self.class.as_ref()),
            lifecycles: words(self.lifecycle.as_ref()),
            healths: words(self.health.as_ref()),
            agent_statuses: self.agent_status.clone().unwrap_or_default(),
            last_seen_before: self.last_seen_before,
            last_seen_after: self.last_seen_after,
            names: reader.texts("name", self.name.as_ref()),
            external_ids: self.external_id.iter().flatten().map(|id| id.as_str().to_owned()).collect(),
            owners: self.owner_id.clone().unwrap_or_default(),
            created_after: self.created_after,
            created_before: self.created_before,
            updated_after: self.updated_after,
            updated_before: self.updated_before,
            protected: self.protected,
            details,
            text: reader.texts("q", self.q.clone().map(|text| vec![text]).as_ref()).pop(),
        };
        if reader.0.is_empty() { Ok(query) } else { Err(reader.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_other_languages_are_corrected() {
        assert_eq!(corrected("a==1").as_deref(), Some("a=1"));
        assert_eq!(corrected("a=>1").as_deref(), Some("a>=1"));
        assert_eq!(corrected("a>>1"), None);
    }
}
