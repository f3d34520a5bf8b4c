//! Signing in and out, second factors, and setting a password. These pages are for everyone. They call the API as any client does, and pass on the
//! cookies that it sets.
//!
//! **Invariant:** no page with an address, a token or a password is kept by a cache, and no page shows a password again.

mod factors;
pub(crate) mod passkey;
mod password;
mod providers;
mod second_factor;
mod sign_in;
mod sign_out;

use futures_util::future::BoxFuture;
use http::{HeaderName, header};
use poem::Response;
use serde_json::Value;

use tenantd_http::{
    pages::{ApiAnswer, Page, PageVisit, Readers, SECOND_FACTOR, SIGN_IN},
    problem::{Code, FieldError, MAX_ERRORS, Problem},
};

use crate::refusal::Refusal;

const SIGN_OUT: &str = "/sign-out";
const SET_PASSWORD: &str = "/set-password";

/// Says whether the token of a link sets a password. It does not use up the token.
pub type PasswordLinks = Box<dyn Fn(&str) -> Result<bool, Problem> + Send + Sync>;

#[allow(missing_debug_implementations, reason = "a closure does not print")]
pub struct Account {
    password_links: PasswordLinks,
}

impl Account {
    pub fn new(password_links: PasswordLinks) -> Self {
        Self { password_links }
    }

    async fn page(&self, visit: &PageVisit<'_>) -> Result<Response, Problem> {
        match (visit.path, visit.form) {
            (SIGN_IN, None) => sign_in::show(visit).await,
            (SIGN_IN, Some(form)) => sign_in::submit(visit, Sent::new(form, &sign_in::FIELDS)?).await,
            (SECOND_FACTOR, None) => factors::show(visit).await,
            (SECOND_FACTOR, Some(form)) => factors::submit(visit, Sent::new(form, &factors::FIELDS)?).await,
            (SIGN_OUT, Some(_)) => sign_out::submit(visit).await,
            (SIGN_OUT, None) => Err(Problem::plain(Code::MethodNotAllowed).header(header::ALLOW, "POST")),
            (SET_PASSWORD, None) => password::show(visit, &self.password_links),
            (SET_PASSWORD, Some(form)) => password::submit(visit, Sent::new(form, &password::FIELDS)?).await,
            _ => Err(Problem::plain(Code::NotFound)),
        }
    }
}

impl Page for Account {
    fn serves(&self, path: &str) -> bool {
        [SIGN_IN, SIGN_OUT, SECOND_FACTOR, SET_PASSWORD].contains(&path)
    }

    fn readers(&self, _path: &str) -> Readers {
        Readers::Everyone
    }

    fn takes_forms(&self, _path: &str) -> bool {
        true
    }

    fn answer<'a>(&'a self, visit: &'a PageVisit<'a>) -> BoxFuture<'a, Result<Response, Problem>> {
        Box::pin(self.page(visit))
    }
}

/// The fields of a form, each at most once. A text keeps its spaces, because a password may have some.
#[derive(Clone, Copy)]
struct Sent<'a>(&'a [(String, String)]);

impl<'a> Sent<'a> {
    fn new(form: &'a [(String, String)], known: &[&str]) -> Result<Self, Problem> {
        let unknown = form.iter().map(|(name, _)| name).filter(|name| !known.contains(&name.as_str())).take(MAX_ERRORS);
        let error = |name: &String| {
            FieldError::pointer(format!("/{name}"), "unknown_field", format!("the field {name} does not exist here"))
        };
        let errors: Vec<FieldError> = unknown.map(error).collect();
        if !errors.is_empty() {
            return Err(Problem::invalid(errors));
        }
        let repeated = known.iter().find(|known| form.iter().filter(|(name, _)| name == **known).count() > 1);
        match repeated {
            Some(name) => Err(Problem::new(Code::MalformedRequest, format!("The field {name} is given twice. Send it once."))),
            None => Ok(Self(form)),
        }
    }

    fn get(self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Adds the headers of the API's answer that are for the browser.
fn passing_on(mut response: Response, answer: &ApiAnswer) -> Response {
    for name in [header::SET_COOKIE, header::RETRY_AFTER, HeaderName::from_static("clear-site-data")] {
        for value in answer.headers.get_all(&name) {
            response.headers_mut().append(name.clone(), value.clone());
        }
    }
    response
}

/// The problem of the API's answer.
fn problem(answer: &ApiAnswer) -> Problem {
    let problem = Problem::from(Refusal::of(answer).unwrap_or_else(Refusal::internal));
    match retry_after(answer) {
        Some(seconds) => problem.retry_after(seconds),
        None => problem,
    }
}

fn retry_after(answer: &ApiAnswer) -> Option<u64> {
    answer.body.get("retry_after_seconds").and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_no_field_twice_and_no_unknown_field() {
        let form = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), " x ".to_owned())).collect::<Vec<_>>();
        let known = ["email", "password"];
        assert_eq!(Sent::new(&form(&["password"]), &known).ok().and_then(|sent| sent.get("password")), Some(" x "));
        let refused = |names: &[&str]| Sent::new(&form(names), &known).map(|_| ()).unwrap_err().code;
        assert_eq!(refused(&["email", "mail"]), Code::ValidationFailed);
        assert_eq!(refused(&["email", "email"]), Code::MalformedRequest);
    }
}
