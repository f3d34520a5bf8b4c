//! The kinds of events that an operation can append, for the page of the operation.

/// Operations with the kinds that they can append. Operations that append none are missing.
const EFFECTS: [(&str, &[&str]); 98] = [
    ("advance_tenant_clock", &["tenant.clock_advanced"]),
    ("archive_workflow_by_id", &["workflow.deleted", "workflow.run.cancelled"]),
    ("cancel_workflow_run_by_id", &["workflow.run.cancelled"]),
    ("create_api_key", &["api_key.created"]),
    ("create_cloud_provider", &["cloud.provider.created", "cloud.provider.verification_failed", "cloud.provider.verified"]),
    ("create_contacts", &["user.created"]),
    ("create_devices", &["device.created"]),
    ("create_evaluation", &["tenant.created", "tenant.emptied", "tenant.ready"]),
    ("create_identity_provider", &["identity_provider.created"]),
    ("create_organizations", &["organization.created"]),
    ("create_secret", &["secret.created"]),
    ("create_tenant", &["tenant.created"]),
    (
        "create_ticket_comment",
        &["ticket.commented", "ticket.reopened", "ticket.sla_at_risk", "ticket.sla_breached", "ticket.updated"],
    ),
    ("create_ticket_time_entry", &["ticket.sla_at_risk", "ticket.sla_breached", "ticket.updated"]),
    ("create_tickets", &["ticket.commented", "ticket.created", "ticket.sla_at_risk", "ticket.sla_breached", "ticket.updated"]),
    ("create_user", &["user.created"]),
    ("create_view", &["view.created"]),
    ("create_webhook", &["webhook.created"]),
    ("delete_api_key", &["api_key.paused", "api_key.revoked", "api_key.updated"]),
    ("delete_api_key_by_id", &["api_key.paused", "api_key.revoked", "api_key.updated"]),
    ("delete_cloud_provider", &["cloud.provider.deleted"]),
    ("delete_cloud_provider_by_id", &["cloud.provider.deleted"]),
    ("delete_contact_by_id", &["device.updated", "ticket.sla_at_risk", "ticket.sla_breached", "ticket.updated", "user.removed"]),
    ("delete_contacts", &["device.updated", "ticket.sla_at_risk", "ticket.sla_breached", "ticket.updated", "user.removed"]),
    ("delete_device_by_id", &["device.removed", "ticket.sla_at_risk", "ticket.sla_breached", "ticket.updated"]),
    ("delete_devices", &["device.removed", "ticket.sla_at_risk", "ticket.sla_breached", "ticket.updated"]),
    ("delete_identity_provider", &["identity_provider.deleted"]),
    ("delete_identity_provider_by_id", &["identity_provider.deleted"]),
    (
        "delete_organization_by_id",
        &[
            "cloud.provider.updated",
            "device.updated",
            "organization.removed",
            "ticket.sla_at_risk",
            "ticket.sla_breached",
            "ticket.updated",
            "user.updated",
        ],
    ),
    (
        "delete_organizations",
        &[
            "cloud.provider.updated",
            "device.updated",
            "organization.removed",
            "ticket.sla_at_risk",
            "ticket.sla_breached",
            "ticket.updated",
            "user.updated",
        ],
    ),
    ("delete_secret", &["secret.deleted"]),
    ("delete_secret_by_id", &["secret.deleted"]),
    ("delete_tenant", &["tenant.deleted", "tenant.deletion_started"]),
    ("delete_user", &["api_key.paused", "user.removed"]),
    ("delete_user_by_id", &["api_key.paused", "user.removed"]),
    ("delete_user_sessions", &["auth.sessions_ended"]),
    ("delete_view", &["view.deleted"]),
    ("delete_webhook", &["webhook.deleted"]),
    ("delete_webhook_by_id", &["webhook.deleted"]),
    ("delete_workflow", &["workflow.deleted", "workflow.run.cancelled"]),
    ("enable_webhook", &["webhook.updated"]),
    ("finish_sso", &["auth.login", "auth.login_failed", "user.created", "user.updated"]),
    ("issue_password_token", &["user.updated"]),
    ("list_audit_records", &["export.started"]),
    ("list_contacts", &["export.started"]),
    ("list_devices", &["export.started"]),
    ("list_organizations", &["export.started"]),
    ("list_tickets", &["export.started"]),
    ("list_vms", &["vm.created", "vm.removed", "vm.state_changed", "vm.updated"]),
    ("login", &["auth.login", "auth.login_failed"]),
    ("pause_webhook", &["webhook.updated"]),
    ("provision_vms", &["vm.created", "vm.provision_failed", "vm.provisioning", "vm.removed", "vm.state_changed", "vm.updated"]),
    ("redeem_sign_in_link", &["auth.login", "auth.login_failed"]),
    ("redeliver_webhook_delivery", &["webhook.disabled"]),
    (
        "replace_backup_config",
        &[
            "backup.config.updated",
            "backup.job.missed",
            "backup.rpo_breached",
            "backup.rpo_recovered",
            "ticket.commented",
            "ticket.created",
            "ticket.resolved",
            "ticket.sla_at_risk",
            "ticket.sla_breached",
            "ticket.updated",
        ],
    ),
    ("replace_sla", &["sla.updated"]),
    ("replay_webhook", &["webhook.disabled"]),
    ("report_asset_inventory", &["export.started"]),
    ("report_backup_customers", &["export.started"]),
    ("reset_tenant", &["tenant.emptied", "tenant.ready"]),
    ("resume_tenant", &["tenant.resumed"]),
    ("resume_webhook", &["webhook.updated"]),
    ("rotate_api_key", &["api_key.rotated"]),
    ("rotate_secret", &["secret.rotated"]),
    ("rotate_webhook_secret", &["webhook.updated"]),
    ("set_password", &["user.updated"]),
    ("set_tenant_quotas", &["tenant.quotas_changed"]),
    (
        "steer_workflow_run_by_id",
        &[
            "workflow.run.cancelled",
            "workflow.run.failed",
            "workflow.run.started",
            "workflow.run.succeeded",
            "workflow.run.timed_out",
            "workflow.run.waiting",
        ],
    ),
    ("suspend_tenant", &["tenant.suspended"]),
    ("take_over_api_key", &["api_key.updated"]),
    ("test_webhook", &["webhook.test"]),
    (
        "trigger_workflow",
        &[
            "workflow.created",
            "workflow.run.cancelled",
            "workflow.run.failed",
            "workflow.run.started",
            "workflow.run.succeeded",
            "workflow.run.timed_out",
            "workflow.run.waiting",
            "workflow.updated",
        ],
    ),
    ("unlink_user", &["user.updated"]),
    ("update_api_key", &["api_key.updated"]),
    ("update_api_key_by_id", &["api_key.updated"]),
    ("update_cloud_provider", &["cloud.provider.updated"]),
    ("update_cloud_provider_by_id", &["cloud.provider.updated"]),
    ("update_contact_by_id", &["user.updated"]),
    ("update_contacts", &["user.updated"]),
    ("update_device_by_id", &["device.updated"]),
    ("update_devices", &["device.updated"]),
    ("update_identity_provider", &["identity_provider.updated"]),
    ("update_identity_provider_by_id", &["identity_provider.updated"]),
    ("update_organization_by_id", &["organization.updated"]),
    ("update_organizations", &["organization.updated"]),
    ("update_preferences", &["preferences.updated"]),
    ("update_secret", &["secret.updated"]),
    ("update_secret_by_id", &["secret.updated"]),
    (
        "update_ticket_by_id",
        &["ticket.closed", "ticket.reopened", "ticket.resolved", "ticket.sla_at_risk", "ticket.sla_breached", "ticket.updated"],
    ),
    (
        "update_tickets",
        &["ticket.closed", "ticket.reopened", "ticket.resolved", "ticket.sla_at_risk", "ticket.sla_breached", "ticket.updated"],
    ),
    ("update_user", &["api_key.paused", "user.updated"]),
    ("update_user_by_id", &["api_key.paused", "user.updated"]),
    ("update_webhook", &["webhook.disabled", "webhook.updated"]),
    ("update_webhook_by_id", &["webhook.disabled", "webhook.updated"]),
    (
        "update_workflow",
        &[
            "workflow.run.cancelled",
            "workflow.run.failed",
            "workflow.run.started",
            "workflow.run.succeeded",
            "workflow.run.timed_out",
            "workflow.run.waiting",
            "workflow.updated",
        ],
    ),
    ("update_workflow_by_id", &["workflow.updated"]),
    ("verify_cloud_provider", &["cloud.provider.verification_failed", "cloud.provider.verified"]),
    ("verify_identity_provider_domain", &["identity_provider.domain_proven"]),
];

/// The kinds that an operation can append, in alphabetical order.
pub(super) fn kinds_of(operation_id: &str) -> &'static [&'static str] {
    EFFECTS.iter().find(|(id, _)| *id == operation_id).map_or(&[], |(_, kinds)| kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_and_every_kind_in_the_table_exists() {
        let operations = include_str!("../../../../tests/golden/operations.txt");
        let kinds = include_str!("../../../../tests/golden/events.txt");
        let has = |list: &str, column: usize, name: &str| list.lines().any(|line| line.split(' ').nth(column) == Some(name));
        for (operation, effects) in EFFECTS {
            assert!(has(operations, 2, operation), "{operation}");
            assert!(effects.is_sorted() && effects.iter().all(|kind| has(kinds, 0, kind)), "{operation}");
        }
        assert!(EFFECTS.is_sorted());
    }
}
