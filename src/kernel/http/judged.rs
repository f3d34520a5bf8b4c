//! A body that the handler gets although it does not match its schema. So the handler can also name what no schema knows, such as a reference
//! to a record that does not exist, and the caller learns all problems at once.

use std::collections::BTreeSet;

use poem::{Request, RequestBody};
use poem_openapi::{
    ApiExtractor, ApiExtractorType, ExtractParamOptions,
    registry::{MetaRequest, Registry},
    types::{Example, ParseFromJSON, ToJSON},
};
use serde_json::{Map, Value};

use tenantd_base::fault::{self, Fault};

use super::{
    context::RequestContext,
    input::Body,
    mark::{Judge, Mark},
    problem::{FieldError, Findings, Place, Problem},
    schema::bounded,
};

#[derive(Debug)]
pub enum Judged<T> {
    Valid(T),
    Refused(RefusedBody),
}

impl<'a, T: ParseFromJSON> ApiExtractor<'a> for Judged<T> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::RequestObject, ApiExtractorType::SecurityScheme];
    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn security_schemes() -> Vec<&'static str> {
        vec![Judge::NAME]
    }

    fn request_meta() -> Option<MetaRequest> {
        <Body<T>>::request_meta()
    }

    async fn from_request(request: &'a Request, body: &mut RequestBody, options: ExtractParamOptions<()>) -> poem::Result<Self> {
        let context = RequestContext::of(request)?;
        match context.take_findings() {
            Some(found) => Ok(Self::Refused(RefusedBody { given: context.take_body().unwrap_or_default(), found })),
            None => Ok(Self::Valid(Body::<T>::from_request(request, body, options).await?.0)),
        }
    }
}

/// A body that does not match its schema.
#[derive(Debug)]
pub struct RefusedBody {
    given: Value,
    found: Findings,
}

impl RefusedBody {
    /// Calls `look` for each record of the body and adds the faults that it returns. The records are in the member `list`; without that
    /// member, the body is the record. In a record, members that are not valid have the value of the example, or are missing. `look` gets
    /// their names, and its faults about them are ignored. `None` ends the search.
    pub fn judge<T, E>(
        self,
        list: Option<&str>,
        mut look: impl FnMut(T, &BTreeSet<&str>) -> Result<Option<Vec<Fault>>, E>,
    ) -> Result<Problem, E>
    where
        T: ParseFromJSON + ToJSON + Example,
    {
        let Findings { mut errors, complete } = self.found;
        if !complete {
            return Ok(Findings { errors, complete }.into());
        }
        let (mut more, mut is_partial) = (Vec::new(), false);
        for (pointer, record) in records(&self.given, list) {
            let Some(refused) = refused_members(&errors, &pointer) else { continue };
            let Some(record) = readable::<T>(record, &refused) else { continue };
            let is_new = |fault: &Fault| match &fault.place {
                fault::Place::Pointer(pointer) => !refused.contains(first_part(pointer)),
                fault::Place::Parameter(_) => true,
            };
            let Some(faults) = look(record, &refused)? else {
                is_partial = true;
                break;
            };
            more.extend(faults.into_iter().filter(is_new).map(|fault| FieldError::from(fault.below(&pointer))));
        }
        errors.append(&mut more);
        Ok(bounded(errors, is_partial).into())
    }
}

/// The records of a body, each with its place.
fn records<'a>(body: &'a Value, list: Option<&str>) -> Vec<(String, &'a Map<String, Value>)> {
    let Some(members) = body.as_object() else { return Vec::new() };
    let Some((list, several)) = list.and_then(|list| Some((list, members.get(list)?))) else {
        return vec![(String::new(), members)];
    };
    let places = several.as_array().into_iter().flatten().enumerate();
    places.filter_map(|(place, record)| Some((format!("/{list}/{place}"), record.as_object()?))).collect()
}

/// The first part of a pointer, as it is written there.
fn first_part(pointer: &str) -> &str {
    pointer.strip_prefix('/').and_then(|parts| parts.split('/').next()).unwrap_or_default()
}

/// The members of the record at `record` that are not valid. None: the record itself is not, or the list that it is in.
fn refused_members<'a>(errors: &'a [FieldError], record: &str) -> Option<BTreeSet<&'a str>> {
    let mut refused = BTreeSet::new();
    for error in errors {
        let Place::Pointer(pointer) = &error.place else { continue };
        match pointer.strip_prefix(record) {
            Some(inside) if inside.starts_with('/') => _ = refused.insert(first_part(inside)),
            Some("") => return None,
            _ if record.strip_prefix(pointer.as_str()).is_some_and(|rest| rest.starts_with('/')) => return None,
            _ => {}
        }
    }
    Some(refused)
}

fn readable<T: ParseFromJSON + ToJSON + Example>(record: &Map<String, Value>, refused: &BTreeSet<&str>) -> Option<T> {
    let mut record = record.clone();
    record.retain(|name, _| !refused.contains(fault::pointer_part(name).as_str()));
    let example = T::example().to_json();
    for (name, value) in example.as_ref().and_then(Value::as_object).into_iter().flatten() {
        if refused.contains(fault::pointer_part(name).as_str()) {
            record.insert(name.clone(), value.clone());
        }
    }
    T::parse_from_json(Some(Value::Object(record))).ok()
}

#[cfg(test)]
mod tests {
    use poem_openapi::Object;
    use serde_json::json;

    use super::*;

    #[derive(Object)]
    #[oai(example)]
    struct Record {
        name: String,
        device: Option<String>,
        contact: Option<String>,
    }

    impl Example for Record {
        fn example() -> Self {
            Self { name: "example".to_owned(), device: Some("example".to_owned()), contact: None }
        }
    }

    fn judge(given: Value, found: &[&str], complete: bool) -> (Vec<String>, usize) {
        let errors = found.iter().map(|pointer| FieldError::pointer(*pointer, "wrong", "wrong")).collect();
        let mut looked = 0;
        let problem = RefusedBody { given, found: Findings { errors, complete } }.judge(Some("records"), |record: Record, _| {
            looked += 1;
            let unknown = |pointer: &str| Fault::new(pointer, "unknown", "unknown");
            let mut faults = vec![unknown("/owner")];
            faults.extend(record.device.map(|_| unknown("/device")));
            faults.extend(record.contact.map(|_| unknown("/contact/id")));
            Ok::<_, ()>(Some(faults))
        });
        let place = |error: &FieldError| match &error.place {
            Place::Pointer(text) | Place::Parameter(text) | Place::Header(text) => text.clone(),
        };
        (problem.unwrap().errors.iter().map(place).collect(), looked)
    }

    #[test]
    fn what_the_schema_and_what_the_handler_finds_is_told_together() {
        assert_eq!(judge(json!({}), &["/name"], true).0, ["/name", "/owner"]);
        let given = json!({"name": 5, "contact": "x", "device": "y", "other": 1});
        assert_eq!(judge(given, &["/name", "/other"], true).0, ["/name", "/other", "/owner", "/device", "/contact/id"]);
    }

    #[test]
    fn nothing_is_said_twice_or_of_the_example() {
        let given = json!({"name": "x", "contact": 5, "device": 5});
        assert_eq!(judge(given, &["/device", "/contact/id"], true).0, ["/device", "/contact/id", "/owner"]);
        assert_eq!(judge(json!({"name": "x"}), &["/name"], false), (vec!["/name".to_owned()], 0), "the search was ended");
        assert_eq!(judge(json!([]), &[""], true).1, 0);
    }

    #[test]
    fn each_of_several_records_is_looked_at_in_its_place() {
        let given = json!({"records": [{"name": "a"}, {}, 5, {"name": "b", "device": "x"}]});
        let (places, looked) = judge(given, &["/records/1/name", "/records/2"], true);
        assert_eq!(
            (looked, places[2..].to_vec()),
            (3, ["/records/0/owner", "/records/1/owner", "/records/3/owner", "/records/3/device"].map(str::to_owned).to_vec())
        );
        assert_eq!(judge(json!({"records": [{}, {}]}), &["/records"], true).1, 0, "too many, for example");
    }
}
