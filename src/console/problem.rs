//! Pages that only say something: a problem with what to do about it, or how something ended.

use http::StatusCode;
use maud::html;
use poem::Response;

use tenantd_http::{pages::SIGN_IN, problem::Problem};

use crate::{layout, markdown, page};

/// Bytes of a problem's errors that a page shows.
const MAX_LISTED_BYTES: usize = 8 << 10;

/// A problem for somebody who looks at it in a browser.
pub fn problem_page(problem: &Problem, request_id: &str) -> Response {
    let (code, status) = (problem.code, problem.code.status());
    let signs_in = status == StatusCode::UNAUTHORIZED;
    let errors = problem.listed(MAX_LISTED_BYTES);
    let documented = format!("/documentation/errors/#{}", code.name().replace('_', "-"));
    let content = html! {
        div.alert role="alert" {
            p { (problem.shown_detail()) }
            @if errors.len() > 1 { ul { @for error in &errors { li { (error.message) } } } }
        }
        @if signs_in { p { "If you sent a form, go back first and copy what you wrote. Then sign in and send it again." } }
        @if !signs_in && problem.detail != code.remedy() { (markdown::description(code.remedy())) }
        p {
            @if signs_in { a href=(SIGN_IN) { "Sign in" } } @else { a href="/" { "Home" } }
        }
        p.muted { small { "Request " code { (request_id) } ", error " a href=(documented) { code { (code.name()) } } } }
    };
    page::unkept(status, &layout::narrow(code.title(), &content))
}

/// A page with a title and paragraphs.
pub fn notice(title: &str, lines: &[String]) -> Response {
    let content = html! { @for line in lines { p { (line) } } };
    page::unkept(StatusCode::OK, &layout::narrow(title, &content))
}

#[cfg(test)]
mod tests {
    use tenantd_http::problem::Code;

    use super::*;

    async fn text(response: Response) -> String {
        response.into_body().into_string().await.unwrap()
    }

    #[test]
    fn a_problem_is_text_with_a_way_on() {
        let refused = problem_page(&Problem::new(Code::InvalidCredentials, "<b>no</b>"), "req_1");
        assert_eq!((refused.status(), refused.header("cache-control")), (StatusCode::UNAUTHORIZED, Some("no-store")));
        let refused = futures_util::FutureExt::now_or_never(text(refused)).unwrap();
        assert!(refused.contains("&lt;b&gt;no&lt;/b&gt;") && refused.contains("href=\"/sign-in\"") && refused.contains("req_1"));
        let missing = futures_util::FutureExt::now_or_never(text(problem_page(&Problem::plain(Code::NotFound), "req_1"))).unwrap();
        assert!(missing.contains("<a href=\"/\">Home</a>") && missing.contains("/documentation/errors/#not-found"));
    }
}
