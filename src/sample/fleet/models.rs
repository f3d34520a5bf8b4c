//! Hardware models of the sample data, with their parts, serial numbers and network cards. The first three bytes of each MAC
//! address are registered to the manufacturer of the device or of its network card.

use tenantd_directory::DeviceClass;

/// A model. In `serial`, `#` is a digit, `@` a capital letter and `*` either. Other characters stand for themselves.
pub(super) struct Model {
    pub(super) class: DeviceClass,
    pub(super) manufacturer: &'static str,
    pub(super) name: &'static str,
    pub(super) serial: &'static str,
    pub(super) cpu: Option<(&'static str, u32)>,
    pub(super) memory_gib: &'static [u64],
    pub(super) disks: &'static [(&'static str, u64, &'static str)],
    pub(super) oui: [u8; 3],
    pub(super) runs: Runs,
    /// The relative frequency. The rarest model has 1.
    pub(super) weight: u64,
}

/// The operating systems that a model can run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    WindowsClient,
    WindowsServer,
    Linux,
    Macos,
    Esxi,
    Ios,
    Android,
    /// The firmware of the manufacturer.
    Firmware(&'static str),
}

const SAMSUNG: (&str, u64, &str) = ("Samsung PM9A1", 512, "nvme");
const MICRON: (&str, u64, &str) = ("Micron 3400", 1_024, "nvme");
const KIOXIA: (&str, u64, &str) = ("KIOXIA XG8", 512, "nvme");
const APPLE_SSD: (&str, u64, &str) = ("Apple SSD AP0512Z", 512, "nvme");
const SERVER_SSD: (&str, u64, &str) = ("Intel SSD D3-S4520", 1_920, "ssd");
const SERVER_HDD: (&str, u64, &str) = ("Seagate Exos 7E10", 8_000, "hdd");
const VIRTUAL: (&str, u64, &str) = ("VMware Virtual disk", 200, "virtual");

macro_rules! models {
    ($($class:ident $maker:literal $model:literal $serial:literal, $cpu:expr, $memory:expr, $disks:expr, $oui:expr, $runs:expr, $weight:literal;)*) => {
        pub(super) const MODELS: &[Model] = &[$(Model {
            class: DeviceClass::$class,
            manufacturer: $maker,
            name: $model,
            serial: $serial,
            cpu: $cpu,
            memory_gib: $memory,
            disks: $disks,
            oui: $oui,
            runs: $runs,
            weight: $weight,
        }),*];
    };
}

models! {
    Workstation "Dell Inc." "Latitude 5450" "*******", Some(("Intel Core Ultra 5 125U", 12)), &[16, 32], &[SAMSUNG], [0xd4, 0xbe, 0xd9], Runs::WindowsClient, 14;
    Workstation "Dell Inc." "OptiPlex 7010" "*******", Some(("Intel Core i5-13500", 14)), &[16], &[KIOXIA], [0x18, 0x66, 0xda], Runs::WindowsClient, 10;
    Workstation "Dell Inc." "Precision 3680" "*******", Some(("Intel Core i9-14900", 24)), &[64, 128], &[MICRON, MICRON], [0xd4, 0xbe, 0xd9], Runs::WindowsClient, 2;
    Workstation "HP" "EliteBook 840 14 inch G10 Notebook PC" "5CG#######", Some(("Intel Core i5-1345U", 10)), &[16, 32], &[SAMSUNG], [0x3c, 0xd9, 0x2b], Runs::WindowsClient, 12;
    Workstation "HP" "ProDesk 400 G7 Small Form Factor" "CZC######@", Some(("Intel Core i5-10500", 6)), &[8, 16], &[KIOXIA], [0x3c, 0xd9, 0x2b], Runs::WindowsClient, 7;
    Workstation "LENOVO" "ThinkPad T14 Gen 4" "PF######", Some(("AMD Ryzen 5 PRO 7540U", 6)), &[16, 32], &[KIOXIA], [0x54, 0xee, 0x75], Runs::WindowsClient, 10;
    Workstation "LENOVO" "ThinkCentre M70q Gen 3" "PC######", Some(("Intel Core i5-12400T", 6)), &[16], &[SAMSUNG], [0x54, 0xee, 0x75], Runs::WindowsClient, 6;
    Workstation "Microsoft Corporation" "Surface Laptop 5" "0############", Some(("Intel Core i7-1265U", 10)), &[16], &[MICRON], [0x28, 0x18, 0x78], Runs::WindowsClient, 3;
    Workstation "Apple Inc." "MacBook Air (M3, 2024)" "@*@*******", Some(("Apple M3", 8)), &[8, 16, 24], &[APPLE_SSD], [0xa4, 0x83, 0xe7], Runs::Macos, 6;
    Workstation "Apple Inc." "Mac mini (2023)" "@*@*******", Some(("Apple M2 Pro", 10)), &[16, 32], &[APPLE_SSD], [0xa4, 0x83, 0xe7], Runs::Macos, 2;
    Workstation "LENOVO" "ThinkPad X1 Carbon Gen 11" "PF######", Some(("Intel Core i7-1365U", 10)), &[32], &[MICRON], [0x54, 0xee, 0x75], Runs::Linux, 2;
    Server "HPE" "ProLiant DL380 Gen10" "CZJ#######", Some(("Intel Xeon Silver 4214R", 24)), &[128, 256], &[SERVER_SSD, SERVER_SSD, SERVER_HDD], [0x94, 0x40, 0xc9], Runs::WindowsServer, 4;
    Server "Dell Inc." "PowerEdge R650" "*******", Some(("Intel Xeon Gold 5318Y", 24)), &[128, 256], &[SERVER_SSD, SERVER_SSD], [0xb0, 0x26, 0x28], Runs::WindowsServer, 4;
    Server "Dell Inc." "PowerEdge T350" "*******", Some(("Intel Xeon E-2336", 6)), &[32, 64], &[SERVER_HDD, SERVER_HDD], [0xb0, 0x26, 0x28], Runs::Linux, 3;
    Server "Supermicro" "SYS-510P-M" "S#########", Some(("Intel Xeon Silver 4310", 12)), &[64], &[SERVER_SSD], [0xac, 0x1f, 0x6b], Runs::Linux, 2;
    Hypervisor "HPE" "ProLiant DL360 Gen10 Plus" "CZ2#######", Some(("Intel Xeon Gold 6338", 32)), &[384, 512], &[SERVER_SSD, SERVER_SSD], [0x94, 0x40, 0xc9], Runs::Esxi, 3;
    Hypervisor "Dell Inc." "PowerEdge R750" "*******", Some(("Intel Xeon Gold 6338", 32)), &[512], &[SERVER_SSD, SERVER_SSD], [0xb0, 0x26, 0x28], Runs::Esxi, 2;
    Vm "VMware, Inc." "VMware20,1" "VMware-56 4d ## ## ## ## ## ##", Some(("Intel Xeon Gold 6338", 4)), &[8, 16, 32], &[VIRTUAL], [0x00, 0x50, 0x56], Runs::WindowsServer, 7;
    Vm "VMware, Inc." "VMware20,1" "VMware-56 4d ## ## ## ## ## ##", Some(("Intel Xeon Gold 6338", 2)), &[4, 8], &[VIRTUAL], [0x00, 0x0c, 0x29], Runs::Linux, 6;
    Network "Cisco Systems, Inc." "Catalyst 9200L-24P-4G" "JAE########", None, &[2], &[], [0x00, 0x1b, 0x54], Runs::Firmware("Cisco IOS XE"), 5;
    Network "Ubiquiti Inc." "UniFi U6 Pro" "245A4C######", None, &[], &[], [0x24, 0x5a, 0x4c], Runs::Firmware("UniFi Network"), 6;
    Network "Fortinet" "FortiGate 60F" "FGT60FTK########", None, &[4], &[], [0x00, 0x09, 0x0f], Runs::Firmware("FortiOS"), 5;
    Network "Juniper Networks" "EX2300-24P" "HW#########", None, &[2], &[], [0x2c, 0x6b, 0xf5], Runs::Firmware("Junos OS"), 2;
    Printer "HP" "LaserJet Enterprise M507" "PHB########", None, &[], &[], [0x3c, 0xd9, 0x2b], Runs::Firmware("FutureSmart"), 5;
    Printer "Brother" "MFC-L8690CDW" "E#####@#@######", None, &[], &[], [0x00, 0x80, 0x77], Runs::Firmware("Brother firmware"), 4;
    Printer "Ricoh" "IM C3000" "3121M######", None, &[], &[], [0x00, 0x26, 0x73], Runs::Firmware("Ricoh firmware"), 2;
    Mobile "Apple Inc." "iPhone 15" "@**@******", Some(("Apple A16 Bionic", 6)), &[6], &[], [0xf0, 0x18, 0x98], Runs::Ios, 6;
    Mobile "Apple Inc." "iPad (10th generation)" "@**@******", Some(("Apple A14 Bionic", 6)), &[4], &[], [0xf0, 0x18, 0x98], Runs::Ios, 2;
    Mobile "Samsung" "Galaxy S24 (SM-S921B)" "R5C@#####@@", Some(("Exynos 2400", 10)), &[8], &[], [0x8c, 0xf5, 0xa3], Runs::Android, 4;
    Storage "Synology" "DS1821+" "2150SBR######", Some(("AMD Ryzen V1500B", 4)), &[4, 32], &[SERVER_HDD, SERVER_HDD, SERVER_HDD, SERVER_HDD], [0x00, 0x11, 0x32], Runs::Firmware("DSM"), 3;
    Storage "QNAP" "TS-464" "Q###@######", Some(("Intel Celeron N5095", 4)), &[8], &[SERVER_HDD, SERVER_HDD], [0x24, 0x5e, 0xbe], Runs::Firmware("QTS"), 2;
    Iot "Axis Communications" "P3245-LVE" "ACCC8E######", None, &[], &[], [0xac, 0xcc, 0x8e], Runs::Firmware("AXIS OS"), 3;
}
