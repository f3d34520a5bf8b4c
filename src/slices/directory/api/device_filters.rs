//! What devices can be asked for by, and how it becomes a query. The list of devices and the reports on them share it.

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

/// Which devices a list or a report is about. The longest list that a filter takes fits into the head of a request.
#[derive(Clone, Debug, Object)]
pub struct DeviceFilters {
    /// Devices of one of these organizations.
    #[oai(validator(min_items = 1, max_items = 200))]
    organization_id: Option<Vec<OrganizationId>>,
    /// At one of these sites; the whole name, without case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    site: Option<Vec<Text<200>>>,
    /// Devices of one of these kinds.
    #[oai(validator(min_items = 1, max_items = 10))]
    class: Option<Vec<Word<DeviceClass>>>,
    /// Devices with one of these families of operating systems.
    #[oai(validator(min_items = 1, max_items = 8))]
    os_family: Option<Vec<Word<OsFamily>>>,
    /// A part of the operating system's name, without case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    os_name: Option<Vec<Text<200>>>,
    /// The whole version of the operating system, without case.
    #[oai(validator(min_items = 1, max_items = 50))]
    os_version: Option<Vec<Text<100>>>,
    /// The whole name of the device, without case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    name: Option<Vec<Text<200>>>,
    /// The id in the system that the device comes from.
    #[oai(validator(min_items = 1, max_items = 50))]
    external_id: Option<Vec<Text<200>>>,
    /// The host name, in full or without its domain, without case.
    #[oai(validator(min_items = 1, max_items = 50))]
    hostname: Option<Vec<Text<255>>>,
    /// Devices of one of these owners.
    #[oai(validator(min_items = 1, max_items = 200))]
    owner_id: Option<Vec<UserId>>,
    /// The whole value of a custom field, without case and accents.
    #[oai(validator(min_items = 1, max_items = 20))]
    custom_field: Option<Vec<Text<1000>>>,
    /// The status of the agent at the moment of the request.
    #[oai(validator(min_items = 1, max_items = 4))]
    agent_status: Option<Vec<AgentStatus>>,
    /// Devices whose agent was last seen before this time. One that was never seen is in neither this nor `last_seen_after`.
    last_seen_before: Option<Timestamp>,
    /// Devices whose agent was seen after this time.
    last_seen_after: Option<Timestamp>,
    /// A part of the maker's name, without case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    manufacturer: Option<Vec<Text<200>>>,
    /// A part of the model's name, without case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    model: Option<Vec<Text<200>>>,
    /// The whole serial number, without case.
    #[oai(validator(min_items = 1, max_items = 50))]
    serial: Option<Vec<Text<200>>>,
    /// An address, or a network such as `192.0.2.0/24`: of the device itself, its public one, or of one of its interfaces.
    #[oai(validator(min_items = 1, max_items = 50))]
    ip: Option<Vec<Text<50>>>,
    /// A hardware address in any spelling, or its first three bytes for all devices of a maker of network cards.
    #[oai(validator(min_items = 1, max_items = 50))]
    mac: Option<Vec<Text<32>>>,
    /// Devices with one of these tags, without case and accents.
    #[oai(validator(min_items = 1, max_items = 50))]
    tag: Option<Vec<Text<100>>>,
    /// Devices at one of these places in their life.
    #[oai(validator(min_items = 1, max_items = 5))]
    lifecycle: Option<Vec<Word<Lifecycle>>>,
    /// A device of whose warranty nobody has told is `unknown`.
    #[oai(validator(min_items = 1, max_items = 5))]
    warranty_status: Option<Vec<Word<WarrantyStatus>>>,
    /// Devices with an end of warranty that is known, before this time.
    warranty_ends_before: Option<Timestamp>,
    /// A device of whose updates nobody has told is `unknown`.
    #[oai(validator(min_items = 1, max_items = 5))]
    patch_status: Option<Vec<Word<PatchStatus>>>,
    /// `false` has also the devices of which nobody has told whether they need one.
    reboot_required: Option<bool>,
    /// Devices that are to be backed up, and have a restore point of the last 30 days (`true`) or not (`false`), as the backup report counts
    /// them. A device that is not to be backed up, such as a printer or a retired one, is in neither.
    protected: Option<bool>,
    /// Devices that have one of these packages: the whole name without case, or its beginning with a `*` behind it; with `>=`, `>`, `<`,
    /// `<=` or `=` and a version behind the name only those of such a version, as in `Google Chrome<131.0.6778`. A version begins with a
    /// number. Versions are compared number by number, and a missing part is 0. An epoch counts first: `1:1.0` is more than `2.0`.
    /// Words for pre-releases (`dev`, `alpha`, `beta`, `pre`, `rc`) come before the number alone, other texts after it: `2.0-rc1` is less than
    /// `2.0`, and `1.0.2a` is more than `1.0.2`. A package whose version is not known fits no comparison.
    #[oai(validator(min_items = 1, max_items = 20))]
    software: Option<Vec<Text<400>>>,
    /// Devices that lack one of these packages, in the forms of `software`.
    #[oai(validator(min_items = 1, max_items = 20))]
    software_missing: Option<Vec<Text<400>>>,
    /// Devices that are doing so.
    #[oai(validator(min_items = 1, max_items = 4))]
    health: Option<Vec<Word<Health>>>,
    /// A part of the name, the host name, the serial number, the model, the owner's name or a tag, without case and accents.
    q: Option<Text<200>>,
    /// Devices whose record was created after this time.
    created_after: Option<Timestamp>,
    /// Devices whose record was created before this time.
    created_before: Option<Timestamp>,
    /// Devices whose record changed after this time.
    updated_after: Option<Timestamp>,
    /// Devices whose record last changed before this time.
    updated_before: Option<Timestamp>,
}

/// On whose behalf, and when.
#[derive(Clone, Debug)]
pub struct Asker {
    pub tenant_id: TenantId,
    pub reach: Reach,
    pub now: Timestamp,
    pub directory: Directory,
}

fn words<T: Copy>(words: Option<&Vec<Word<T>>>) -> Vec<T> {
    words.into_iter().flatten().map(|word| word.0).collect()
}

/// Reads filters, and remembers all that is wrong with them.
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
                None => self.fault("ip", format!("{text} is neither an address nor a network"), None),
            }
        }
        read
    }

    fn macs(&mut self, texts: Option<&Vec<Text<32>>>) -> Vec<MacFilter> {
        let mut read = Vec::new();
        for text in texts.into_iter().flatten().map(Text::as_str) {
            match MacFilter::parse(text) {
                Some(mac) => read.push(mac),
                None => self.fault("mac", format!("{text} is no hardware address, nor the first three bytes of one"), None),
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

/// Comparisons as other languages write them.
fn corrected(text: &str) -> Option<String> {
    [("==", "="), ("=>", ">="), ("=<", "<=")].iter().find_map(|(wrong, right)| {
        let corrected = text.replacen(wrong, right, 1);
        (corrected != text && SoftwareFilter::parse(&corrected).is_ok()).then_some(corrected)
    })
}

impl DeviceFilters {
    pub fn query(&self, asker: Asker) -> Result<DeviceQuery, Vec<Fault>> {
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
        let Asker { tenant_id, reach, now, directory } = asker;
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
    fn comparisons_of_other_languages_are_corrected() {
        assert_eq!(corrected("a==1").as_deref(), Some("a=1"));
        assert_eq!(corrected("a=>1").as_deref(), Some("a>=1"));
        assert_eq!(corrected("a>>1"), None);
    }
}
