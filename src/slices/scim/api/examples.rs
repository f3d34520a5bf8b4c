//! Examples for the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::wire::{ProvisionedGroup, ReplaceRoleRules, RoleRules};

examples! {
    ProvisionedGroup => "provisioned_group.json",
    RoleRules => "role_rules.json",
    ReplaceRoleRules => "replace_role_rules.json",
}
