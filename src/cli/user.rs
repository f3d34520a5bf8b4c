//! `tenantd user`: manages the users of a tenant, on the running server or offline.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use tenantd_base::{config::Config, secrets::Secret};

use super::{
    Common, Failure,
    client::{Client, OfflineArgs},
    init::read_secret,
    output,
};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Admin,
    Technician,
    Viewer,
    Operator,
}

#[derive(Debug, Args)]
pub(super) struct UserCommand {
    #[command(flatten)]
    args: OfflineArgs,
    #[command(subcommand)]
    command: User,
}

#[derive(Debug, Subcommand)]
enum User {
    /// Create a user. Prints a link with which the user sets a password, unless you pass one on standard input.
    Create {
        /// The email address of the user, which is also the sign-in name.
        email: String,
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
        /// The name of the user. Default: the email address.
        #[arg(long)]
        name: Option<String>,
        /// The role of the user.
        #[arg(long, value_enum, default_value = "viewer")]
        role: Role,
        /// Read the password from standard input. Default: make a link to set it, which works once within 72 hours.
        #[arg(long)]
        password_stdin: bool,
    },
    /// List the users of a tenant.
    List {
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
    },
    /// End the password and all sessions of the user, and print a link with which the user sets a new password.
    ResetPassword {
        /// The email address of the user.
        email: String,
        /// The id or slug of the tenant. Required if several tenants have a user with this address.
        #[arg(long)]
        tenant: Option<String>,
        /// Read the new password from standard input. Default: make a link to set it, which works once within 72 hours.
        #[arg(long)]
        password_stdin: bool,
    },
    /// Remove all second factors of a user, and end all sessions of the user.
    ResetFactors {
        /// The email address of the user.
        email: String,
        /// The id or slug of the tenant. Required if several tenants have a user with this address.
        #[arg(long)]
        tenant: Option<String>,
    },
}

/// The password for the body of a request. Without one, the server answers with a link.
fn password(from_stdin: bool) -> Result<Option<Secret>, Failure> {
    if from_stdin { read_secret().map(Some) } else { Ok(None) }
}

/// The URL at which people reach the server, as the configuration says it. Requests over the admin socket do not know it.
fn public_url(config: &Config) -> String {
    if let Some(url) = &config.listen.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let (scheme, usual_port) = if config.listen.tls { ("https", 443) } else { ("http", 80) };
    let address = config.listen.address;
    let host = if address.ip().is_loopback() {
        "localhost".to_owned()
    } else {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    };
    if address.port() == usual_port { format!("{scheme}://{host}") } else { format!("{scheme}://{host}:{}", address.port()) }
}

impl UserCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let base_url = public_url(&common.settings(&[])?);
        let client = Client::connect(common, self.args).await?;
        let mut user = match self.command {
            User::List { tenant } => return list(&client, &tenant, common.json).await,
            User::ResetFactors { email, tenant } => return reset_factors(&client, &email, tenant, common.json).await,
            User::Create { email, tenant, name, role, password_stdin } => {
                let password = password(password_stdin)?;
                let role = role.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
                let name = name.unwrap_or_else(|| email.clone());
                let mut body = json!({"email": email, "name": name, "role": role});
                add_password(&mut body, password.as_ref());
                let path = format!("/internal/admin/tenants/{}/users", client.tenant_id(&tenant).await?);
                client.post(&path, Some(&body)).await?
            }
            User::ResetPassword { email, tenant, password_stdin } => {
                let password = password(password_stdin)?;
                let mut body = json!({"email": email});
                add_password(&mut body, password.as_ref());
                if let (Some(tenant), Some(body)) = (tenant, body.as_object_mut()) {
                    body.insert("tenant_id".to_owned(), json!(client.tenant_id(&tenant).await?));
                }
                client.post("/internal/admin/users/reset-password", Some(&body)).await?
            }
        };
        let link = user.get("password_token").and_then(Value::as_str).map(|token| format!("{base_url}/set-password?token={token}"));
        if let (Some(link), Some(user)) = (link, user.as_object_mut()) {
            user.insert("password_link".to_owned(), json!(link));
        }
        if common.json {
            return output::json(&user);
        }
        output::record(
            &user,
            &[
                ("id", "/id"),
                ("email", "/email"),
                ("name", "/name"),
                ("role", "/role"),
                ("password link", "/password_link"),
                ("expires", "/password_token_expires_at"),
            ],
        )
    }
}

async fn reset_factors(client: &Client, email: &str, tenant: Option<String>, as_json: bool) -> Result<(), Failure> {
    let mut body = json!({"email": email});
    if let (Some(tenant), Some(body)) = (tenant, body.as_object_mut()) {
        body.insert("tenant_id".to_owned(), json!(client.tenant_id(&tenant).await?));
    }
    let user = client.post("/internal/admin/users/reset-factors", Some(&body)).await?;
    if as_json {
        return output::json(&user);
    }
    output::record(&user, &[("id", "/id"), ("email", "/email"), ("name", "/name"), ("role", "/role")])
}

fn add_password(body: &mut Value, password: Option<&Secret>) {
    if let (Some(password), Some(body)) = (password, body.as_object_mut()) {
        body.insert("password".to_owned(), json!(password.expose()));
    }
}

async fn list(client: &Client, tenant: &str, as_json: bool) -> Result<(), Failure> {
    let users = client.get(&format!("/internal/admin/tenants/{}/users", client.tenant_id(tenant).await?)).await?;
    if as_json {
        return output::json(&users);
    }
    let rows: Vec<Value> = users.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
    output::table(
        &rows,
        &[("ID", "/id"), ("EMAIL", "/email"), ("ROLE", "/role"), ("STATUS", "/status"), ("LAST LOGIN", "/last_login_at")],
    )
}
