//! Definitions that ship with the binary and can be installed by name.

use std::sync::LazyLock;

use serde_json::Value;

pub(super) struct Starter {
    pub(super) name: &'static str,
    pub(super) definition: Value,
}

macro_rules! starters {
    ($($name:literal,)*) => {
        const TEXTS: &[(&str, &str)] = &[$(($name, include_str!(concat!("starters/", $name, ".json")))),*];
    };
}

starters! {
    "alert-critical-ticket",
    "chase-waiting-customer",
    "escalate-sla-breach",
    "follow-up-resolved",
    "key-expiring-ticket",
    "new-device-checklist",
    "offboard-user",
    "onboard-user",
    "provision-vm-with-approval",
    "ticket-on-backup-failure",
    "unprotected-device-report",
    "webhook-disabled-ticket",
    "weekly-review",
}

pub(super) static STARTERS: LazyLock<Vec<Starter>> = LazyLock::new(|| {
    let read = |(name, text): &(&'static str, &str)| Some(Starter { name, definition: serde_json::from_str(text).ok()? });
    TEXTS.iter().filter_map(read).collect()
});

pub(super) fn find(name: &str) -> Option<&'static Value> {
    STARTERS.iter().find(|starter| starter.name == name).map(|starter| &starter.definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_starter_is_json_with_its_name_as_key() {
        assert_eq!(STARTERS.len(), TEXTS.len());
        assert!(STARTERS.iter().all(|starter| starter.definition["key"] == starter.name));
    }
}
