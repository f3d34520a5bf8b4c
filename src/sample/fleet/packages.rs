//! Software of the sample data, with its systems, frequency and versions. The newest version is first.

use tenantd_directory::OsFamily;

pub(super) struct Package {
    pub(super) families: &'static [OsFamily],
    /// The devices that have it: servers, workstations, or both.
    pub(super) on: On,
    pub(super) name: &'static str,
    pub(super) publisher: &'static str,
    pub(super) versions: &'static [&'static str],
    /// The percentage of matching devices that have it.
    pub(super) percent: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    Servers,
    Desks,
    Both,
}

const WINDOWS: &[OsFamily] = &[OsFamily::Windows];
const MACOS: &[OsFamily] = &[OsFamily::Macos];
const DESKS: &[OsFamily] = &[OsFamily::Windows, OsFamily::Macos];
const LINUX: &[OsFamily] = &[OsFamily::Linux];

macro_rules! packages {
    ($($families:expr, $on:ident $name:literal $publisher:literal $percent:literal [$($version:literal)*];)*) => {
        pub(super) const PACKAGES: &[Package] = &[$(Package {
            families: $families,
            on: On::$on,
            name: $name,
            publisher: $publisher,
            versions: &[$($version),*],
            percent: $percent,
        }),*];
    };
}

packages! {
    DESKS, Desks "Google Chrome" "Google LLC" 82 ["138.0.7204.101" "137.0.7151.120" "131.0.6778.86" "109.0.5414.120"];
    DESKS, Desks "Mozilla Firefox" "Mozilla" 34 ["140.0.4" "128.12.0" "115.25.0"];
    WINDOWS, Both "Microsoft Edge" "Microsoft Corporation" 97 ["138.0.3351.77" "137.0.3296.93" "130.0.2849.68"];
    DESKS, Desks "Microsoft 365 Apps for business" "Microsoft Corporation" 78 ["16.0.18925.20158" "16.0.18827.20164" "16.0.17928.20572"];
    WINDOWS, Desks "Microsoft Office Professional Plus 2016" "Microsoft Corporation" 7 ["16.0.4266.1001"];
    DESKS, Desks "Microsoft Teams" "Microsoft Corporation" 74 ["25163.3611.3774.6315" "24335.208.3315.1951"];
    DESKS, Desks "Zoom Workplace" "Zoom Communications, Inc." 46 ["6.5.3" "6.3.11" "5.17.11"];
    DESKS, Desks "Adobe Acrobat Reader" "Adobe" 63 ["25.001.20566" "24.005.20421" "23.008.20555"];
    DESKS, Desks "Adobe Creative Cloud" "Adobe" 11 ["6.6.1.2" "6.4.0.361"];
    WINDOWS, Both "7-Zip" "Igor Pavlov" 58 ["25.00" "24.09" "19.00"];
    WINDOWS, Desks "Notepad++ (64-bit x64)" "Notepad++ Team" 29 ["8.8.3" "8.6.9" "7.9.5"];
    WINDOWS, Desks "VLC media player" "VideoLAN" 24 ["3.0.21" "3.0.18"];
    WINDOWS, Desks "PuTTY release" "Simon Tatham" 9 ["0.83" "0.78"];
    DESKS, Desks "Slack" "Slack Technologies" 19 ["4.45.64" "4.41.105"];
    DESKS, Desks "1Password" "AgileBits Inc." 14 ["8.10.82" "8.10.50"];
    DESKS, Desks "Microsoft Visual Studio Code" "Microsoft Corporation" 13 ["1.102.1" "1.98.2" "1.85.0"];
    WINDOWS, Desks "TeamViewer" "TeamViewer" 8 ["15.67.5" "15.42.4"];
    WINDOWS, Both "Java 8 Update" "Oracle Corporation" 12 ["8.0.4510.10" "8.0.2910.10"];
    WINDOWS, Both "Microsoft Visual C++ 2015-2022 Redistributable (x64)" "Microsoft Corporation" 92 ["14.44.35211.0" "14.38.33135.0"];
    WINDOWS, Both "Microsoft .NET Runtime 8" "Microsoft Corporation" 61 ["8.0.18" "8.0.7"];
    WINDOWS, Desks "FortiClient VPN" "Fortinet Technologies" 41 ["7.4.3.1790" "7.0.10.0538"];
    WINDOWS, Desks "Dell Command | Update" "Dell Inc." 22 ["5.5.0" "4.9.0"];
    WINDOWS, Both "Veeam Agent for Microsoft Windows" "Veeam Software Group GmbH" 38 ["6.3.2.1205" "6.1.2.134"];
    WINDOWS, Servers "Microsoft SQL Server 2019 (64-bit)" "Microsoft Corporation" 28 ["15.0.4435.7" "15.0.2000.5"];
    WINDOWS, Servers "Microsoft Exchange Server 2019" "Microsoft Corporation" 9 ["15.2.1748.10" "15.2.1258.12"];
    WINDOWS, Servers "Microsoft Entra Connect Sync" "Microsoft Corporation" 16 ["2.5.3.0" "2.3.20.0"];
    WINDOWS, Servers "VMware Tools" "Broadcom Inc." 47 ["12.5.2" "12.3.5" "11.3.5"];
    MACOS, Desks "Microsoft Word" "Microsoft Corporation" 71 ["16.98" "16.89"];
    MACOS, Desks "Xcode" "Apple Inc." 12 ["16.4" "15.4"];
    MACOS, Desks "Jamf Connect" "Jamf" 23 ["2.45.1" "2.33.0"];
    LINUX, Both "openssh-server" "OpenBSD" 96 ["9.6p1" "9.2p1" "8.9p1" "7.4p1"];
    LINUX, Both "openssl" "OpenSSL" 98 ["3.0.16" "3.0.2" "1.1.1n"];
    LINUX, Both "curl" "Daniel Stenberg" 93 ["8.5.0" "7.88.1" "7.64.0"];
    LINUX, Servers "nginx" "F5, Inc." 37 ["1.26.3" "1.24.0" "1.18.0"];
    LINUX, Servers "apache2" "Apache Software Foundation" 21 ["2.4.62" "2.4.52" "2.4.38"];
    LINUX, Servers "postgresql-16" "PostgreSQL Global Development Group" 24 ["16.9" "16.3"];
    LINUX, Servers "mariadb-server" "MariaDB" 18 ["10.11.11" "10.6.18"];
    LINUX, Servers "docker-ce" "Docker, Inc." 33 ["28.3.2" "27.3.1" "24.0.7"];
    LINUX, Both "python3" "Python Software Foundation" 95 ["3.12.3" "3.11.2" "3.10.12"];
    LINUX, Servers "samba" "Samba Team" 14 ["4.19.5" "4.17.12"];
}

/// Antivirus products.
pub(super) const ANTIVIRUS: [&str; 4] =
    ["Microsoft Defender Antivirus", "SentinelOne Agent", "Sophos Intercept X", "ESET Endpoint Security"];
