//! A user as clients see it.

use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::super::model;
use crate::kernel::{access, clock::Timestamp, id::UserId};

#[derive(Clone, Copy, Debug, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    Admin,
    Technician,
    Viewer,
    Operator,
}

impl From<access::Role> for Role {
    fn from(role: access::Role) -> Self {
        match role {
            access::Role::Admin => Self::Admin,
            access::Role::Technician => Self::Technician,
            access::Role::Viewer => Self::Viewer,
            access::Role::Operator => Self::Operator,
        }
    }
}

impl From<Role> for access::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Admin => Self::Admin,
            Role::Technician => Self::Technician,
            Role::Viewer => Self::Viewer,
            Role::Operator => Self::Operator,
        }
    }
}

#[derive(Clone, Copy, Debug, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum UserStatus {
    Active,
    Disabled,
}

/// Someone who works for the tenant and signs in.
#[derive(Debug, Object, Serialize)]
pub(super) struct User {
    pub(super) id: UserId,
    #[oai(validator(max_length = 254))]
    pub(super) email: String,
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) status: UserStatus,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_login_at: Option<Timestamp>,
    /// Counts the changes of this record.
    pub(super) version: u64,
}

impl From<&model::User> for User {
    fn from(user: &model::User) -> Self {
        Self {
            id: user.id,
            email: user.email.clone(),
            name: user.name.clone(),
            role: user.role.into(),
            status: match user.status {
                model::UserStatus::Active => UserStatus::Active,
                model::UserStatus::Disabled => UserStatus::Disabled,
            },
            created_at: user.created_at,
            updated_at: user.updated_at,
            last_login_at: user.last_login_at,
            version: user.version,
        }
    }
}

pub(in super::super) fn describe(user: &model::User) -> Result<Box<RawValue>, serde_json::Error> {
    to_raw_value(&User::from(user))
}
