//! The kinds of clouds, and the fields that a form has for each of them.

use super::fields::{Field, Form, Kind};

const ENDPOINT: Field =
    Field::optional("endpoint", "API endpoint", Form::Line, "The URL that replaces the one of the cloud's own API.");
const CERTIFICATE: Field = Field::optional(
    "ca_certificate_pem",
    "Certificate authorities",
    Form::Text,
    "In PEM format. tenantd trusts them instead of the default ones.",
);
const REGIONS: Field = Field::optional(
    "regions",
    "Regions",
    Form::Words,
    "Separate regions with commas. Without them, tenantd reads all regions that the cloud lists, or its default region.",
);
const API_TOKEN: Field = Field::required("api_token", "API token", Form::Secret, "");

pub(super) static KINDS: [Kind; 8] = [
    Kind {
        name: "aws",
        title: "AWS",
        config: &[REGIONS, ENDPOINT, CERTIFICATE],
        credential: &[(
            "Access key",
            &[
                Field::required("access_key_id", "Access key ID", Form::Line, ""),
                Field::required("secret_access_key", "Secret access key", Form::Secret, ""),
                Field::optional("session_token", "Session token", Form::Secret, "Only for a temporary access key."),
            ],
        )],
    },
    Kind {
        name: "azure",
        title: "Azure",
        config: &[
            Field::optional("resource_group", "Resource group", Form::Line, "For new VMs."),
            REGIONS,
            Field::optional("auth_url", "Sign-in URL", Form::Line, "Replaces the public sign-in service."),
            ENDPOINT,
            CERTIFICATE,
        ],
        credential: &[(
            "Service principal",
            &[
                Field::required("tenant_id", "Directory (tenant) ID", Form::Line, ""),
                Field::required("client_id", "Application (client) ID", Form::Line, ""),
                Field::required("client_secret", "Client secret", Form::Secret, ""),
                Field::required("subscription_id", "Subscription ID", Form::Line, "The subscription with the VMs."),
            ],
        )],
    },
    Kind {
        name: "gcp",
        title: "Google Cloud",
        config: &[REGIONS, ENDPOINT, CERTIFICATE],
        credential: &[(
            "Service account",
            &[
                Field::required("service_account_json", "Key file", Form::SecretText, "The content of the JSON key file."),
                Field::optional("project_id", "Project ID", Form::Line, "Without it, the project of the service account."),
            ],
        )],
    },
    Kind {
        name: "openstack",
        title: "OpenStack",
        config: &[
            Field::required("auth_url", "Keystone URL", Form::Line, "Such as https://keystone.example.com:5000/v3."),
            REGIONS,
            ENDPOINT,
            CERTIFICATE,
        ],
        credential: &[
            (
                "Application credential",
                &[
                    Field::optional("application_credential_id", "Application credential ID", Form::Line, ""),
                    Field::optional("application_credential_secret", "Application credential secret", Form::Secret, ""),
                ],
            ),
            (
                "Or a password",
                &[
                    Field::optional("username", "User name", Form::Line, ""),
                    Field::optional("password", "Password", Form::Secret, ""),
                    Field::optional("project_name", "Project name", Form::Line, ""),
                    Field::optional("user_domain_name", "Domain of the user", Form::Line, "Without it, Default."),
                    Field::optional("project_domain_name", "Domain of the project", Form::Line, "Without it, Default."),
                ],
            ),
        ],
    },
    Kind {
        name: "proxmox",
        title: "Proxmox VE",
        config: &[
            Field::required("endpoint", "API endpoint", Form::Line, "Such as https://pve.example.com:8006."),
            Field::optional(
                "tls_fingerprint",
                "Certificate fingerprint",
                Form::Line,
                "SHA-256 in hexadecimal. tenantd then trusts this certificate without an authority.",
            ),
            CERTIFICATE,
        ],
        credential: &[(
            "API token",
            &[
                Field::required("token_id", "Token ID", Form::Line, "Such as automation@pve!tenantd."),
                Field::required("token_secret", "Token secret", Form::Secret, ""),
            ],
        )],
    },
    Kind {
        name: "hetzner",
        title: "Hetzner Cloud",
        config: &[REGIONS, ENDPOINT, CERTIFICATE],
        credential: &[("Credential", &[API_TOKEN])],
    },
    Kind {
        name: "digitalocean",
        title: "DigitalOcean",
        config: &[REGIONS, ENDPOINT, CERTIFICATE],
        credential: &[("Credential", &[API_TOKEN])],
    },
    Kind {
        name: "simulated",
        title: "Simulated",
        config: &[
            Field::optional("seed", "Seed", Form::Number, "Determines the VMs. Without it, 0."),
            Field::optional("vm_count", "VMs at the beginning", Form::Number, "Without it, 12."),
            Field::optional("quota", "Most VMs", Form::Number, "Without it, 100."),
            Field::optional("latency_ms", "Delay of each answer, in milliseconds", Form::Number, ""),
            Field::optional("fail", "Error that it answers", Form::Choice(&FAILURES), ""),
            REGIONS,
        ],
        credential: &[],
    },
];

/// The errors that a simulated cloud answers on demand.
const FAILURES: [&str; 10] = [
    "invalid_credentials",
    "insufficient_permissions",
    "unreachable",
    "tls_error",
    "clock_skew",
    "rate_limited",
    "provider_error",
    "timeout",
    "read_only",
    "quota_exceeded",
];

impl Kind {
    /// The kind with this name in the API.
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// All kinds for a `select`.
    pub(super) fn choices() -> Vec<(String, String)> {
        KINDS.iter().map(|kind| (kind.name.to_owned(), kind.title.to_owned())).collect()
    }
}

/// The name of a kind as people know it.
pub(super) fn title_of(name: &str) -> &str {
    Kind::of(name).map_or(name, |kind| kind.title)
}
