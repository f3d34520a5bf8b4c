//! What an order would create, as a dry run of the API says, and the values that other VMs of the provider have.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::Scope;

use super::{
    VMS_API,
    verification::{Check, checks},
    vm::Vm,
};
use crate::{
    components::{Tone, badge},
    desk::{
        organizations::{counted, optional},
        records::List,
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// The most values that a hint names.
const MOST_VALUES: usize = 6;

/// The answer to an order that was only checked.
#[derive(Debug, Deserialize)]
pub(super) struct Plan {
    vms: Vec<Vm>,
    #[serde(default)]
    checks: Vec<Check>,
    would_succeed: Option<bool>,
}

impl Plan {
    pub(super) fn show(&self) -> Markup {
        html! {
            p role="status" {
                @if self.would_succeed == Some(true) {
                    (badge(Tone::Good, "Accepted")) " No problem was found. Nothing was ordered yet."
                } @else {
                    (badge(Tone::Bad, "Refused")) " The provider would refuse this order. Correct what the checks name, then check again."
                }
            }
            (checks(&self.checks))
            h3 { "The order would create " (counted(self.vms.len() as u64, "VM", "VMs")) }
            div.scroll tabindex="0" role="group" aria-label="VMs that the order would create" {
                table.list {
                    thead { tr { @for head in ["Name", "Region", "Size", "Image", "Tags", "Organization"] { th scope="col" { (head) } } } }
                    tbody {
                        @for vm in &self.vms {
                            tr {
                                td.main { (vm.name) }
                                td { (optional(vm.place().as_deref())) }
                                td { (optional(vm.size.as_ref().map(|size| size.id.as_str()))) }
                                td { (optional(vm.image.as_deref())) }
                                td { @for (key, value) in &vm.tags { (badge(Tone::Neutral, &tag(key, value))) " " } }
                                td { (optional(vm.organization.as_ref().map(|organization| organization.name.as_str()))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn tag(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}={value}") }
}

/// Values that VMs of the provider have, the most frequent first. The API has no list of all values that a cloud offers.
#[derive(Debug, Default)]
pub(super) struct InUse {
    pub(super) regions: Vec<String>,
    pub(super) sizes: Vec<String>,
    pub(super) images: Vec<String>,
}

impl InUse {
    pub(super) async fn read(visitor: &Visitor<'_>, provider_id: &str) -> Result<Self, Refusal> {
        if !visitor.may(Scope::VmsRead) {
            return Ok(Self::default());
        }
        let target = Query::default().with("provider_id", provider_id).with("limit", "100").at(VMS_API);
        let vms = visitor.read_if_allowed::<List<Vm>>(target).await?.map_or_else(Vec::new, |list| list.data);
        // An order that failed may have named values that do not exist.
        let vms: Vec<&Vm> = vms.iter().filter(|vm| vm.provider_vm_id.is_some()).collect();
        Ok(Self {
            regions: frequent(vms.iter().filter_map(|vm| vm.region.as_deref())),
            sizes: frequent(vms.iter().filter_map(|vm| Some(vm.size.as_ref()?.id.as_str()))),
            images: frequent(vms.iter().filter_map(|vm| vm.image.as_deref())),
        })
    }

    /// The hint of a field: the values in use, or an example.
    pub(super) fn hint(values: &[String], example: &str) -> String {
        if values.is_empty() { example.to_owned() } else { format!("Other VMs of this provider have: {}.", values.join(", ")) }
    }
}

/// The most frequent values.
fn frequent<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut found: Vec<(&str, usize)> = counts.into_iter().collect();
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    found.into_iter().take(MOST_VALUES).map(|(value, _)| value.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_the_most_frequent_values() {
        let values = ["b", "a", "c", "c", "a", "c", "d", "e", "f", "g"];
        assert_eq!(frequent(values.into_iter()), ["c", "a", "b", "d", "e", "f"]);
        assert_eq!(InUse::hint(&["a".to_owned(), "b".to_owned()], "x"), "Other VMs of this provider have: a, b.");
        assert_eq!(InUse::hint(&[], "Such as t3.small."), "Such as t3.small.");
    }
}
