//! The columns of a CSV export: the paths into a row for each section. **Invariant:** their order never changes.

use super::{super::listing::RowKind, filters::Section};

const IDENTITY: &[&str] = &["id", "name", "organization.id", "organization.name"];
const PACKAGE: &[&str] = &["package.name", "package.version", "package.publisher"];
pub(super) const GROUPS: &[&str] = &["value", "name", "count"];

/// The sections in the order of their columns, regardless of the requested order.
const SECTIONS: [(Section, &[&str]); 9] = [
    (
        Section::Summary,
        &[
            "external_id",
            "class",
            "lifecycle",
            "site",
            "owner.id",
            "owner.name",
            "tags",
            "custom_fields",
            "agent.status",
            "agent.version",
            "agent.last_seen_at",
            "health",
            "collected_at",
            "created_at",
            "updated_at",
            "version",
        ],
    ),
    (
        Section::Hardware,
        &[
            "hardware.manufacturer",
            "hardware.model",
            "hardware.serial",
            "hardware.cpu.model",
            "hardware.cpu.cores",
            "hardware.memory_bytes",
            "hardware.disks.model",
            "hardware.disks.bytes",
            "hardware.disks.kind",
            "hardware.volumes.name",
            "hardware.volumes.bytes",
            "hardware.volumes.free_bytes",
            "hardware.volumes.encrypted",
        ],
    ),
    (Section::Os, &["os.family", "os.name", "os.version", "os.build", "os.reboot_required", "os.eol_at", "os.last_boot_at"]),
    (
        Section::Network,
        &[
            "network.hostname",
            "network.primary_ip",
            "network.public_ip",
            "network.interfaces.name",
            "network.interfaces.mac",
            "network.interfaces.ips",
        ],
    ),
    (Section::Security, &["security.antivirus", "security.firewall", "security.disk_encryption"]),
    (Section::Patch, &["patch.status", "patch.missing_critical", "patch.missing_other", "patch.last_scan_at"]),
    (Section::Software, &["software.name", "software.version", "software.publisher"]),
    (Section::Warranty, &["warranty.status", "warranty.ends_at"]),
    (Section::Backup, &["backup.eligible", "backup.protected", "backup.last_success_at"]),
];

pub(super) fn of(sections: &[Section], kind: RowKind) -> Vec<&'static str> {
    let packages = kind == RowKind::Package;
    let is_included = |section: Section| sections.contains(&section) && !(packages && section == Section::Software);
    let columns = SECTIONS.iter().filter(|(section, _)| is_included(*section)).flat_map(|(_, columns)| *columns);
    IDENTITY.iter().chain(columns).chain(PACKAGE.iter().filter(|_| packages)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_order_does_not_depend_on_the_request() {
        let columns = of(&[Section::Os, Section::Summary], RowKind::Device);
        assert_eq!(columns, of(&[Section::Summary, Section::Os], RowKind::Device));
        assert_eq!(columns.last(), Some(&"os.last_boot_at"));
        let packages = of(&[Section::Software], RowKind::Package);
        assert_eq!(
            packages,
            ["id", "name", "organization.id", "organization.name", "package.name", "package.version", "package.publisher"]
        );
    }
}
