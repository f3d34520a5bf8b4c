//! Verifies a credential, in the same way for every kind: connect, authenticate, list VMs, check the permission to create. A check
//! is marked as skipped if an earlier one failed.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    super::model::{Capabilities, Check, CheckName, Failure, FailureClass, Outcome, Verification, Warning},
    Access, Adapter, Rehearsal,
};

/// Runs a check and measures its time. Returns the check with its result.
async fn timed<T>(name: CheckName, attempt: impl Future<Output = Result<T, Failure>>) -> (Check, Result<T, Failure>) {
    let started = Instant::now();
    let outcome = attempt.await;
    let ms = u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX);
    let check = match &outcome {
        Ok(_) => Check::passed(name, ms),
        Err(failure) => Check::failed(name, ms, &failure.code, failure.class.remedy()),
    };
    (check, outcome)
}

/// The findings so far.
#[derive(Default)]
struct Findings {
    identity: Option<String>,
    checks: Vec<Check>,
    capabilities: Capabilities,
    warnings: Vec<Warning>,
    /// The reason why the credential is limited.
    message: Option<String>,
}

/// Verifies the credential, within `limit`. Never returns an error: failures are part of the result.
pub(crate) async fn verify(adapter: &dyn Adapter, access: &Access, limit: Duration) -> Verification {
    let at = access.client.now();
    let mut findings = Findings::default();
    let late = || Failure::new(FailureClass::Timeout, "timeout", "the provider did not answer in time");
    let timed = tokio::time::timeout(limit, run_checks(adapter, access, &mut findings)).await;
    let (outcome, failure) = match timed.unwrap_or_else(|_| Err(late())) {
        Ok(outcome) => (outcome, None),
        Err(failure) => (failure.class.outcome(), Some(failure)),
    };
    let mut checks = access.client.connection_checks().to_vec();
    checks.append(&mut findings.checks);
    for name in [CheckName::Authenticate, CheckName::ListVms, CheckName::Provision] {
        if !checks.iter().any(|check| check.name == name) {
            checks.push(Check::skipped(name));
        }
    }
    Verification {
        at,
        outcome,
        identity: findings.identity,
        checks,
        capabilities: findings.capabilities,
        warnings: findings.warnings,
        message: failure.map(|failure| failure.message).or(findings.message).map(|message| access.credential.conceal(&message)),
    }
}

async fn run_checks(adapter: &dyn Adapter, access: &Access, findings: &mut Findings) -> Result<Outcome, Failure> {
    let (check, identity) = timed(CheckName::Authenticate, adapter.authenticate(access)).await;
    findings.checks.push(check);
    findings.identity = Some(identity?.0);
    let (check, page) = timed(CheckName::ListVms, adapter.list(access, None)).await;
    findings.checks.push(check);
    let page = page?;
    findings.capabilities.read = true;
    if !page.skipped.is_empty() || page.vms.iter().any(|vm| !vm.unread.is_empty()) {
        findings.warnings.push(Warning::IncompleteInventory);
    } else if page.vms.is_empty() && page.next.is_none() {
        findings.warnings.push(Warning::EmptyInventory);
    }
    let (check, rehearsal) = timed(CheckName::Provision, adapter.rehearse(access, None)).await;
    match rehearsal {
        Ok(Rehearsal::Allowed) => {
            findings.checks.push(check);
            findings.capabilities.provision = true;
            Ok(Outcome::Valid)
        }
        Ok(Rehearsal::CannotTell) => {
            findings.checks.push(Check::skipped(CheckName::Provision));
            findings.capabilities.provision = true;
            findings.warnings.push(Warning::ProvisionNotChecked);
            Ok(Outcome::Valid)
        }
        Err(failure) if failure.class == FailureClass::InsufficientPermissions => {
            findings.checks.push(check);
            findings.message = Some(failure.message);
            Ok(Outcome::ValidLimited)
        }
        Err(failure) => {
            findings.checks.push(check);
            Err(failure)
        }
    }
}
