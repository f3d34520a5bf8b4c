//! `/set-password`: the page of the link that an administrator gives to a user. The token in the link works once.

use http::StatusCode;
use poem::Request;
use poem_openapi::{Object, OpenApi};

use tenantd_auth::{AuthError, Users};
use tenantd_base::{clock::Clock, secrets::Secret};
use tenantd_http::{
    context::RequestContext,
    credentials::check_same_origin,
    input::{Filter, Form},
    mark::{Marked, SignIn},
    pages::{Html, PageAnswer, escape},
    problem::Problem,
};

#[derive(Debug, Object)]
struct PasswordQuery {
    /// The token from the link.
    #[oai(validator(max_length = 100))]
    token: Option<String>,
}

#[derive(Debug, Object)]
struct PasswordForm {
    #[oai(validator(max_length = 100))]
    token: String,
    #[oai(validator(max_length = 1000))]
    password: String,
}

pub(crate) struct PasswordPages {
    pub(crate) users: Users,
    pub(crate) clock: Clock,
}

#[OpenApi]
impl PasswordPages {
    /// Show the page for setting a password
    ///
    /// Returns the form for the new password. This request does not use up the token.
    #[oai(path = "/set-password", method = "get", operation_id = "show_set_password")]
    async fn show_set_password(&self, query: Filter<PasswordQuery>) -> Result<PageAnswer, Problem> {
        let token = query.0.token.unwrap_or_default();
        match self.users.check_password_token(&Secret::new(token.clone()), self.clock.now()) {
            Ok(()) => Ok(PageAnswer::shown(StatusCode::OK, form(&token, None))),
            Err(AuthError::BadToken) => Ok(used()),
            Err(error) => Err(error.into()),
        }
    }

    /// Set a password
    ///
    /// Sets the password, uses up the token, and redirects to the sign-in page.
    #[oai(path = "/set-password", method = "post", operation_id = "submit_set_password")]
    async fn submit_set_password(
        &self,
        _class: Marked<SignIn>,
        request: &Request,
        body: Form<PasswordForm>,
    ) -> Result<PageAnswer, Problem> {
        let context = RequestContext::of(request)?;
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let PasswordForm { token, password } = body.0;
        let set = self.users.redeem_password_token(&Secret::new(token.clone()), Secret::new(password), self.clock.now()).await;
        match set {
            Ok(()) => Ok(PageAnswer::see_other("/sign-in?password=true")),
            Err(AuthError::BadPassword(problem)) => {
                Ok(PageAnswer::shown(StatusCode::UNPROCESSABLE_ENTITY, form(&token, Some(problem))))
            }
            Err(AuthError::BadToken) => Ok(used()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The page for a link that was used or has expired.
fn used() -> PageAnswer {
    let mut html = Html::new("This link does not work");
    html.raw(
        "<p>The link was already used, has expired, or is incomplete. Ask an administrator of your organization for a new link.</p>\
         <p><a href=\"/sign-in\">Sign in</a></p>",
    );
    PageAnswer::shown(StatusCode::UNAUTHORIZED, html)
}

fn form(token: &str, problem: Option<&str>) -> Html {
    let mut html = Html::new("Set your password");
    if let Some(problem) = problem {
        html.raw(&format!("<p id=\"problem\" role=\"alert\" class=\"bad\">{}</p>", escape(problem)));
    }
    let described = if problem.is_some() { "problem rule" } else { "rule" };
    html.raw(&format!(
        "<form method=\"post\" action=\"/set-password\"><input type=\"hidden\" name=\"token\" value=\"{}\">\
         <label for=\"password\">New password</label><input id=\"password\" name=\"password\" type=\"password\" \
         autocomplete=\"new-password\" minlength=\"12\" maxlength=\"256\" required autofocus aria-describedby=\"{described}\">\
         <p id=\"rule\"><small>At least 12 characters.</small></p><button>Set the password</button></form>",
        escape(token)
    ));
    html
}
