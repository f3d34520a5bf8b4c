//! The examples of the published document.

use poem_openapi::types::Example;

use tenantd_base::change::Change;
use tenantd_directory::{RoleView, UserKindView, UserStatusView, UserView};

use super::wire::{CreateUser, UpdateUser, UserWithToken};

impl Example for CreateUser {
    fn example() -> Self {
        Self {
            email: Some("ada@example.com".to_owned()),
            name: "Ada Lovelace".to_owned(),
            kind: Some(UserKindView::Staff),
            role: Some(RoleView::Technician),
            organization_id: None,
            external_id: None,
        }
    }
}

impl Example for UpdateUser {
    fn example() -> Self {
        Self {
            id: None,
            email: None,
            name: Some("Ada King".to_owned()),
            role: None,
            organization_id: Change::Keep,
            status: Some(UserStatusView::Active),
            external_id: Change::Keep,
        }
    }
}

impl Example for UserWithToken {
    fn example() -> Self {
        let user = UserView::example();
        Self {
            password_token: Some("Zm9ydHktdGhyZWUgY2hhcmFjdGVycyBvZiByYW5kb21uZXM".to_owned()),
            password_link: Some(
                "https://ops.example.com/set-password?token=Zm9ydHktdGhyZWUgY2hhcmFjdGVycyBvZiByYW5kb21uZXM".to_owned(),
            ),
            password_token_expires_at: Some(user.created_at.plus_days(3)),
            user,
        }
    }
}
