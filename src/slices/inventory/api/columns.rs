//! The columns of a table: for each section the paths into a row, in an order that does not change.

use super::{super::listing::RowKind, filters::Section};

const IDENTITY: &[&str] = &["id", "name", "organization.id", "organization.name"];
const PACKAGE: &[&str] = &["package.name", "package.version", "package.publisher"];
pub(super) const GROUPS: &[&str] = &["value", "name", "count"];

/// The sections in the order of their columns, whatever the order in which they are asked for.
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
    let asked = |section: Section| sections.contains(&section) && !(packages && section == Section::Software);
    let columns = SECTIONS.iter().filter(|(section, _)| asked(*section)).flat_map(|(_, columns)| *columns);
    IDENTITY.iter().chain(columns).chain(PACKAGE.iter().filter(|_| packages)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_sections_and_not_of_the_question() {
        let asked = of(&[Section::Os, Section::Summary], RowKind::Device);
        assert_eq!(asked, of(&[Section::Summary, Section::Os], RowKind::Device));
        assert_eq!(asked.last(), Some(&"os.last_boot_at"));
        let packages = of(&[Section::Software], RowKind::Package);
        assert_eq!(
            packages,
            ["id", "name", "organization.id", "organization.name", "package.name", "package.version", "package.publisher"]
        );
    }
}
