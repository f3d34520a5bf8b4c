//! `tenantd user`: manages the users of a tenant, on the running server or offline.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use tenantd_base::{entropy::Entropy, secrets::Secret};

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
    /// Create a user. Generates and prints a password, unless you pass one on standard input.
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
        /// Read the password from standard input. Default: generate a random password.
        #[arg(long)]
        password_stdin: bool,
    },
    /// List the users of a tenant.
    List {
        /// The id or slug of the tenant.
        #[arg(long)]
        tenant: String,
    },
    /// Set a new password and end all sessions of the user.
    ResetPassword {
        /// The email address of the user.
        email: String,
        /// The id or slug of the tenant. Required if several tenants have a user with this address.
        #[arg(long)]
        tenant: Option<String>,
        /// Read the password from standard input. Default: generate a random password.
        #[arg(long)]
        password_stdin: bool,
    },
}

fn password(from_stdin: bool) -> Result<tenantd_base::secrets::Secret, Failure> {
    if from_stdin { read_secret() } else { Ok(Secret::random_password(&mut Entropy::from_os())) }
}

impl UserCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::connect(common, self.args).await?;
        let (mut user, password, shown) = match self.command {
            User::List { tenant } => return list(&client, &tenant, common.json).await,
            User::Create { email, tenant, name, role, password_stdin } => {
                let password = password(password_stdin)?;
                let role = role.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
                let name = name.unwrap_or_else(|| email.clone());
                let body = json!({"email": email, "name": name, "role": role, "password": password.expose()});
                let path = format!("/internal/admin/tenants/{}/users", client.tenant_id(&tenant).await?);
                (client.post(&path, Some(&body)).await?, password, !password_stdin)
            }
            User::ResetPassword { email, tenant, password_stdin } => {
                let password = password(password_stdin)?;
                let mut body = json!({"email": email, "password": password.expose()});
                if let (Some(tenant), Some(body)) = (tenant, body.as_object_mut()) {
                    body.insert("tenant_id".to_owned(), json!(client.tenant_id(&tenant).await?));
                }
                (client.post("/internal/admin/users/reset-password", Some(&body)).await?, password, !password_stdin)
            }
        };
        if let (true, Some(user)) = (shown, user.as_object_mut()) {
            user.insert("password".to_owned(), json!(password.expose()));
        }
        if common.json {
            return output::json(&user);
        }
        output::record(
            &user,
            &[("id", "/id"), ("email", "/email"), ("name", "/name"), ("role", "/role"), ("password", "/password")],
        )
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
