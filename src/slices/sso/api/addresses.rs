//! The addresses of this installation that providers know: where they send people back to, and where they report the end of
//! sessions.

use tenantd_base::id::{IdentityProviderId, TenantId};
use tenantd_http::context::BaseUrl;

use super::super::ticket::Redirect;

/// Where the provider sends people back to. With an address of its own, its answers cannot be taken for those of another provider.
pub(super) fn redirect(base_url: &BaseUrl, id: IdentityProviderId, is_own: bool) -> Redirect {
    let shared = format!("{base_url}/api/auth/sso/callback");
    Redirect { uri: if is_own { format!("{shared}/{id}") } else { shared }, is_own }
}

/// Where the provider sends logout tokens.
pub(super) fn backchannel_logout(base_url: &BaseUrl, tenant: TenantId, id: IdentityProviderId) -> String {
    format!("{base_url}/api/auth/sso/backchannel-logout/{tenant}/{id}")
}

/// The page that the provider shows in a frame when a session ends there.
pub(super) fn frontchannel_logout(base_url: &BaseUrl, tenant: TenantId, id: IdentityProviderId) -> String {
    format!("{base_url}/api/auth/sso/frontchannel-logout/{tenant}/{id}")
}
