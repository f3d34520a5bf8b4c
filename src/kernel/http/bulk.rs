//! Requests for several records at once: how much one request may read and write, and how its failures are reported. They run in
//! the one writer, which all tenants wait for.

use std::{collections::BTreeSet, marker::PhantomData};

use http::StatusCode;
use poem::{IntoResponse, Response};
use poem_openapi::{
    ApiResponse,
    registry::{MetaResponses, Registry},
    types::Type,
};
use serde::Serialize;
use serde_json::Value;

use tenantd_store::{Metered, Read};

use super::{
    problem::{Code, FieldError, Place, Problem},
    reply::{Empty, Rendered, response},
};

/// The most bytes that a bulk request reads and writes for all its records, including their events.
pub const MAX_BULK_BYTES: usize = 4 << 20;

/// The last record made the request exceed its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    records: usize,
    bytes: usize,
}

impl From<TooLarge> for Problem {
    fn from(TooLarge { records, bytes }: TooLarge) -> Self {
        let detail = format!(
            "The first {records} records of this request take {bytes} bytes, including their events and what they refer to. \
             One request can read and write at most {MAX_BULK_BYTES} bytes. Send fewer records per request."
        );
        Self::new(Code::PayloadTooLarge, detail)
    }
}

/// The bytes that a request has read and written so far.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    records: usize,
    bytes: usize,
}

impl Budget {
    pub const fn of_many() -> Self {
        Self { most: MAX_BULK_BYTES, records: 0, bytes: 0 }
    }

    /// The bounds of the fields are limit enough for one record.
    pub const fn of_one() -> Self {
        Self { most: usize::MAX, records: 0, bytes: 0 }
    }

    /// Begins one more record. Fails once the request has used up its bytes, so that nothing more is read.
    pub fn begin(&mut self) -> Result<(), TooLarge> {
        self.check()?;
        self.records += 1;
        Ok(())
    }

    /// Reads for the current record. The bytes count even if the read fails.
    pub fn read<R: Read, T>(&mut self, tx: &R, read: impl FnOnce(&Metered<'_, R>) -> T) -> T {
        let view = Metered::new(tx);
        let result = read(&view);
        self.bytes = self.bytes.saturating_add(view.bytes());
        result
    }

    /// Counts the bytes written for the current record.
    pub fn spend(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.check()
    }

    fn check(&self) -> Result<(), TooLarge> {
        if self.bytes > self.most { Err(TooLarge { records: self.records, bytes: self.bytes }) } else { Ok(()) }
    }
}

/// Where the body of a request has its records.
#[derive(Clone, Copy, Debug)]
pub enum Members {
    /// Each record has its own body, in this member.
    Bodies(&'static str),
    /// This member names the records. One `patch` applies to all of them.
    Names(&'static str),
}

/// Combines the errors of all records of a request that is done completely or not at all. A server error takes precedence. If all
/// records failed with the same code, the request has that code.
pub fn joined(members: Members, failures: Vec<(usize, Problem)>) -> Problem {
    let (member, own_bodies) = match members {
        Members::Bodies(member) => (member, true),
        Members::Names(member) => (member, false),
    };
    let (mut errors, mut codes) = (Vec::new(), BTreeSet::new());
    // The states that every one of the records can change to.
    let mut allowed = None::<Vec<Value>>;
    for (index, problem) in failures {
        if problem.code.status().is_server_error() {
            return problem;
        }
        codes.insert(problem.code);
        let transitions = problem.extra.get(TRANSITIONS).and_then(Value::as_array).cloned();
        if let Some(transitions) = &transitions {
            let common = |before: Vec<Value>| before.into_iter().filter(|state| transitions.contains(state)).collect();
            allowed = Some(allowed.map_or_else(|| transitions.clone(), common));
        }
        let at = format!("/{member}/{index}");
        if problem.errors.is_empty() {
            let names = transitions.into_iter().flatten().filter_map(|state| state.as_str().map(str::to_owned)).collect();
            let error = FieldError::pointer(at.clone(), problem.code.name(), problem.detail.clone());
            errors.push(error.with_allowed(names));
        }
        for error in &problem.errors {
            let mut error = error.clone();
            // A pointer into the patch is shown with the record that it failed for. An error without a pointer means that the
            // reference to the record is wrong.
            match &mut error.place {
                Place::Pointer(pointer) if own_bodies || pointer.is_empty() => *pointer = format!("{at}{pointer}"),
                place => {
                    error.message = format!("{} ({at})", error.message);
                    if let Place::Pointer(pointer) = place {
                        *pointer = format!("/patch{pointer}");
                    }
                }
            }
            errors.push(error);
        }
    }
    let mut problem = Problem::invalid(errors);
    if let (Some(code), 1) = (codes.first(), codes.len()) {
        problem.code = *code;
    }
    match allowed.filter(|_| problem.code == Code::InvalidTransition) {
        Some(allowed) => problem.with(TRANSITIONS, allowed),
        None => problem,
    }
}

/// The member of a problem that lists the states that a record can change to.
const TRANSITIONS: &str = "allowed_transitions";

/// The status and the problem of one failed record, for the result of that record.
pub fn failure(index: usize, problem: &Problem) -> (u16, Value) {
    if let Some(cause) = &problem.cause {
        tracing::error!(index, code = problem.code.name(), cause, "a record of a bulk request failed");
    }
    (problem.code.status().as_u16(), problem.of_item())
}

/// Refuses parameters that name or version one record in a request for several records.
pub fn refuse_one(names_one: bool, has_version: bool) -> Result<(), Problem> {
    let mut errors = Vec::new();
    if names_one {
        errors.push(FieldError::parameter("id", "not_allowed", "ids already names the records; omit id"));
    }
    if has_version {
        let place = Place::Header("If-Match".to_owned());
        errors.push(FieldError::new(place, "not_allowed", "If-Match names the version of one record; omit it for several records"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}

/// 204 after one record was deleted; 200 with one result per record after several were.
#[derive(Debug)]
pub struct Removed<T>(Rendered, PhantomData<fn() -> T>);

impl<T> Removed<T> {
    pub fn one() -> Self {
        Self(Empty::new().0, PhantomData)
    }
}

impl<T: Serialize> Removed<T> {
    pub fn several(results: &T) -> Self {
        Self(Rendered::json(StatusCode::OK, results), PhantomData)
    }
}

impl<T: Send> IntoResponse for Removed<T> {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl<T: Type> ApiResponse for Removed<T> {
    fn meta() -> MetaResponses {
        let several = response(200, "Several records were deleted.", Some(T::schema_ref()), &[]);
        MetaResponses { responses: vec![response(204, "The record was deleted.", None, &[]), several] }
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}
