// An identity provider of a test: oidc-provider on a free port of this host.

import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

export const CLIENT = { client_id: "tenantd", client_secret: "a secret of 32 letters and a few more" };

/**
 * Starts a provider for the people of a domain. `change` gives it new keys under the same address, and the addresses of tenantd that it
 * knows.
 */
export async function startProvider(packages, url, domain) {
  const require = createRequire(join(resolve(packages), "package.json"));
  const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);
  let handle;
  const server = createServer((request, response) => handle(request, response));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const change = (name, address) => {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const provider = new Provider(issuer, {
      clients: [
        {
          ...CLIENT,
          redirect_uris: [address?.redirect_uri ?? `${url}/api/auth/sso/callback`],
          grant_types: ["authorization_code"],
          response_types: ["code"],
          ...(address && { backchannel_logout_uri: address.backchannel_logout_uri, backchannel_logout_session_required: true }),
        },
      ],
      features: { backchannelLogout: { enabled: true } },
      // tenantd is on this machine, which the provider's own dispatcher refuses.
      fetch: (address, { dispatcher: _, ...options }) => fetch(address, options),
      jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), kid: name, use: "sig", alg: "RS256" }] },
      claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
      pkce: { required: () => true },
      cookies: { keys: ["not a secret: it is only for this test"] },
      findAccount: (_, id) => ({
        accountId: id,
        claims: () => ({ sub: id, email: `${id}@${domain}`, email_verified: true, name: `The person ${id}`, groups: ["staff", "helpdesk"] }),
      }),
    });
    handle = provider.callback();
  };
  change("first");
  return { server, issuer, change };
}

/** Goes through the pages of the provider, which ask for a login and for consent unless it has a session. */
export async function logIn(page, person, isDone, timeout) {
  const settled = (address) => isDone(address) || address.pathname.startsWith("/interaction/");
  await page.waitForURL(settled, { timeout });
  while (!isDone(new URL(page.url()))) {
    const before = page.url();
    const login = page.locator("input[name=login]");
    if (await login.count()) {
      await login.fill(person);
      await page.locator("input[name=password]").fill("anything");
    }
    await page.locator("button[type=submit]").click();
    await page.waitForURL((address) => address.href !== before && settled(address), { timeout });
  }
}
