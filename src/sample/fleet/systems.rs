//! Operating systems of the sample data, with the announced end of support. A system without a date is supported as long as its
//! device.

use tenantd_directory::OsFamily;

use super::models::Runs;

pub(super) struct System {
    pub(super) runs: Runs,
    pub(super) family: OsFamily,
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) build: Option<&'static str>,
    pub(super) eol: Option<&'static str>,
    pub(super) weight: u64,
}

macro_rules! systems {
    ($($runs:expr, $family:ident $name:literal $version:literal $build:expr, $eol:expr, $weight:literal;)*) => {
        pub(super) const SYSTEMS: &[System] = &[$(System {
            runs: $runs,
            family: OsFamily::$family,
            name: $name,
            version: $version,
            build: $build,
            eol: $eol,
            weight: $weight,
        }),*];
    };
}

systems! {
    Runs::WindowsClient, Windows "Windows 11 Pro" "24H2" Some("26100.4652"), Some("2026-10-13T00:00:00Z"), 9;
    Runs::WindowsClient, Windows "Windows 11 Pro" "25H2" Some("26200.6584"), Some("2027-10-12T00:00:00Z"), 5;
    Runs::WindowsClient, Windows "Windows 11 Pro" "23H2" Some("22631.5624"), Some("2025-11-11T00:00:00Z"), 4;
    Runs::WindowsClient, Windows "Windows 11 Enterprise" "24H2" Some("26100.4652"), Some("2027-10-12T00:00:00Z"), 4;
    Runs::WindowsClient, Windows "Windows 10 Pro" "22H2" Some("19045.6093"), Some("2025-10-14T00:00:00Z"), 4;
    Runs::WindowsServer, Windows "Windows Server 2022 Standard" "21H2" Some("20348.3932"), Some("2031-10-14T00:00:00Z"), 6;
    Runs::WindowsServer, Windows "Windows Server 2019 Standard" "1809" Some("17763.7558"), Some("2029-01-09T00:00:00Z"), 4;
    Runs::WindowsServer, Windows "Windows Server 2016 Standard" "1607" Some("14393.8246"), Some("2027-01-12T00:00:00Z"), 2;
    Runs::WindowsServer, Windows "Windows Server 2012 R2 Standard" "6.3" Some("9600"), Some("2023-10-10T00:00:00Z"), 1;
    Runs::WindowsServer, Windows "Windows Server 2025 Standard" "24H2" Some("26100.4652"), Some("2034-10-10T00:00:00Z"), 2;
    Runs::Linux, Linux "Debian GNU/Linux" "12" None, Some("2028-06-30T00:00:00Z"), 4;
    Runs::Linux, Linux "Debian GNU/Linux" "10" None, Some("2024-06-30T00:00:00Z"), 1;
    Runs::Linux, Linux "Ubuntu" "22.04.5 LTS" None, Some("2027-04-01T00:00:00Z"), 5;
    Runs::Linux, Linux "Ubuntu" "24.04.2 LTS" None, Some("2029-04-01T00:00:00Z"), 4;
    Runs::Linux, Linux "Red Hat Enterprise Linux" "9.5" None, Some("2032-05-31T00:00:00Z"), 2;
    Runs::Linux, Linux "CentOS Linux" "7.9.2009" None, Some("2024-06-30T00:00:00Z"), 1;
    Runs::Macos, Macos "macOS Sequoia" "15.5" Some("24F74"), None, 5;
    Runs::Macos, Macos "macOS Sonoma" "14.7.6" Some("23H626"), None, 3;
    Runs::Macos, Macos "macOS Monterey" "12.7.6" Some("21H1320"), Some("2024-09-16T00:00:00Z"), 1;
    Runs::Esxi, Esxi "VMware ESXi" "8.0.3" Some("24674464"), Some("2027-10-11T00:00:00Z"), 3;
    Runs::Esxi, Esxi "VMware ESXi" "7.0.3" Some("24411414"), Some("2025-10-02T00:00:00Z"), 2;
    Runs::Ios, Ios "iOS" "18.5" Some("22F76"), None, 4;
    Runs::Ios, Ios "iOS" "17.7.2" Some("21H221"), None, 2;
    Runs::Android, Android "Android" "15" Some("AP3A.240905.015"), None, 3;
    Runs::Android, Android "Android" "14" Some("UP1A.231005.007"), None, 2;
    Runs::Firmware("Cisco IOS XE"), NetworkOs "Cisco IOS XE" "17.12.4" None, None, 2;
    Runs::Firmware("Cisco IOS XE"), NetworkOs "Cisco IOS XE" "17.9.5" None, None, 1;
    Runs::Firmware("UniFi Network"), NetworkOs "UniFi firmware" "6.6.77" Some("15402"), None, 1;
    Runs::Firmware("FortiOS"), NetworkOs "FortiOS" "7.4.8" Some("2795"), Some("2027-11-11T00:00:00Z"), 2;
    Runs::Firmware("FortiOS"), NetworkOs "FortiOS" "7.0.17" Some("0682"), Some("2025-09-30T00:00:00Z"), 1;
    Runs::Firmware("Junos OS"), NetworkOs "Junos OS" "23.4R2-S4" None, None, 1;
    Runs::Firmware("FutureSmart"), Other "HP FutureSmart" "5.7.1.1" None, None, 1;
    Runs::Firmware("DSM"), Linux "DSM" "7.2.2" Some("72806"), None, 2;
    Runs::Firmware("DSM"), Linux "DSM" "6.2.4" Some("25556"), Some("2024-10-01T00:00:00Z"), 1;
    Runs::Firmware("QTS"), Linux "QTS" "5.2.5" Some("3145"), None, 1;
    Runs::Firmware("AXIS OS"), Linux "AXIS OS" "11.11.135" None, None, 1;
}
