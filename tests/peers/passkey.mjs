// A person with Chromium's own authenticator adds a passkey, signs in with it alone and after the password, and removes it.

import assert from "node:assert/strict";

/** @param url the address of the server @param who the e-mail address and the password of the person */
export async function usePasskey(browser, url, who) {
  // Browsers offer no passkeys for an IP address.
  const site = url.replace("127.0.0.1", "localhost");
  const context = await browser.newContext();
  const complaints = [];
  context.on("console", (message) => {
    if (/security policy/i.test(message.text())) complaints.push(message.text());
  });
  context.on("weberror", (error) => complaints.push(String(error.error())));
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  const options = { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true };
  await devtools.send("WebAuthn.addVirtualAuthenticator", { options: { ...options, automaticPresenceSimulation: true } });
  const enterPassword = async () => {
    await page.goto(`${site}/`);
    await page.getByLabel("E-mail address").fill(who.email);
    await page.keyboard.press("Enter");
    await page.getByLabel("Password", { exact: true }).fill(who.password);
    await page.keyboard.press("Enter");
  };
  const signOut = async () => {
    await page.goto(`${site}/`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(/\/sign-in/);
  };
  await enterPassword();
  await page.waitForURL(`${site}/`);
  await page.goto(`${site}/second-factor`);
  await page.getByRole("button", { name: "Add a passkey" }).click();
  await page.getByLabel("Name of the device or password manager").fill("Virtual");
  await page.getByRole("button", { name: "Make the passkey" }).click();
  await page.getByText("The passkey is added.").waitFor();
  await signOut();
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await page.waitForURL(`${site}/`);
  await signOut();
  await enterPassword();
  await page.getByRole("button", { name: "Use a passkey" }).click();
  await page.waitForURL(`${site}/`);
  await page.goto(`${site}/second-factor`);
  await page.getByRole("button", { name: "Remove Virtual" }).click();
  await page.getByText("You have no second factor.").waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
}
