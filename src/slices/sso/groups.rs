//! Reads the groups of a person from the claims of a provider. The number and the length of groups are limited.

use serde_json::{Map, Value};

use tenantd_auth::RefusalReason;

use super::model::MAX_NAME;

/// More groups than providers put into a token.
const MAX_GROUPS: usize = 1000;
/// A claim that lists what a provider left out of the token, because it is too large.
const LEFT_OUT: &str = "_claim_names";

/// The groups at `path`. A missing claim means no groups: some providers leave out an empty list.
///
/// A list that is incomplete is refused. Otherwise a person could lose a role because they are in too many groups.
pub(super) fn groups(claims: &Map<String, Value>, path: &str) -> Result<Vec<String>, RefusalReason> {
    let is_left_out = |names: &Map<String, Value>| path.split('.').next().is_some_and(|first| names.contains_key(first));
    if claims.get(LEFT_OUT).and_then(Value::as_object).is_some_and(is_left_out) {
        return Err(RefusalReason::UnusableGroups);
    }
    match find(claims, path) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(group)) => Ok(fitting(group).into_iter().collect()),
        Some(Value::Array(groups)) if groups.len() <= MAX_GROUPS => {
            let names = groups.iter().map(|group| group.as_str().ok_or(RefusalReason::UnusableGroups));
            Ok(names.collect::<Result<Vec<_>, _>>()?.into_iter().filter_map(fitting).collect())
        }
        Some(_) => Err(RefusalReason::UnusableGroups),
    }
}

/// The claim with this name, or the one that the path leads to. Names of claims can contain dots, such as URLs.
pub(super) fn find<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(found) = claims.get(path) {
        return Some(found);
    }
    let (first, rest) = path.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |found, name| found.get(name))
}

/// A longer group cannot be in a mapping.
fn fitting(group: &str) -> Option<String> {
    (group.chars().count() <= MAX_NAME).then(|| group.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_are_a_list_or_one_text_at_a_name_or_a_path() {
        let claims = json!({
            "groups": ["a", "b"], "role": "c", "realm_access": {"roles": ["d"]}, "https://acme.com/groups": ["e"],
            "odd": [1], "deep": {"er": {"est": "f"}}, "long": ["g", "x".repeat(256)], "number": 7, "none": null,
            "many": vec!["h"; MAX_GROUPS + 1],
        });
        let found = |path: &str| groups(claims.as_object().unwrap(), path).map(|groups| groups.join(","));
        for (path, wanted) in [
            ("groups", "a,b"),
            ("role", "c"),
            ("realm_access.roles", "d"),
            ("https://acme.com/groups", "e"),
            ("deep.er.est", "f"),
            ("long", "g"),
            ("missing", ""),
            ("missing.too", ""),
            ("role.x", ""),
            ("none", ""),
        ] {
            assert_eq!(found(path).as_deref(), Ok(wanted), "{path}");
        }
        for path in ["odd", "number", "many", "deep"] {
            assert_eq!(found(path), Err(RefusalReason::UnusableGroups), "{path}");
        }
    }

    #[test]
    fn groups_that_did_not_fit_into_the_token_are_refused() {
        let claims = json!({"_claim_names": {"groups": "src1"}});
        assert_eq!(groups(claims.as_object().unwrap(), "groups"), Err(RefusalReason::UnusableGroups));
        assert_eq!(groups(claims.as_object().unwrap(), "roles"), Ok(Vec::new()));
    }
}
