// Verifies received deliveries with the official package from npm.
// usage: node verify.mjs DIRECTORY_OF_PACKAGES DELIVERIES.json

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [packages, deliveries] = process.argv.slice(2);
const { Webhook, WebhookVerificationError } = createRequire(resolve(packages, "package.json"))("standardwebhooks");

function accepts(secret, headers, body) {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch (error) {
    assert(error instanceof WebhookVerificationError, error);
    return false;
  }
}

// Replaces the letter at this position with another of the same kind.
function flip(text, place) {
  const letter = text[place];
  const other = /[0-9]/.test(letter) ? (letter === "0" ? "1" : "0") : letter === "a" ? "b" : "a";
  return text.slice(0, place) + other + text.slice(place + 1);
}

function flipSecret(secret) {
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  key[0] ^= 1;
  return "whsec_" + key.toString("base64");
}

function* forgeries(secret, headers, body) {
  for (let place = 0; place < body.length; place += Math.max(1, Math.floor(body.length / 16))) {
    yield [`body at ${place}`, secret, headers, flip(body, place)];
  }
  yield ["longer body", secret, headers, body + " "];
  for (const name of ["webhook-id", "webhook-timestamp"]) {
    yield [name, secret, { ...headers, [name]: flip(headers[name], headers[name].length - 1) }, body];
  }
  const signatures = headers["webhook-signature"].split(" ").map((one) => flip(one, 3)).join(" ");
  yield ["webhook-signature", secret, { ...headers, "webhook-signature": signatures }, body];
  yield ["secret", flipSecret(secret), headers, body];
}

let accepted = 0;
let refused = 0;
for (const { when, headers, body, ...secrets } of JSON.parse(readFileSync(deliveries, "utf8"))) {
  for (const secret of secrets.accepted) {
    assert(accepts(secret, headers, body), `${when}: refused`);
    accepted += 1;
    for (const [what, ...forged] of forgeries(secret, headers, body)) {
      assert(!accepts(...forged), `${when}: accepted with another ${what}`);
      refused += 1;
    }
  }
  for (const secret of secrets.refused) {
    assert(!accepts(secret, headers, body), `${when}: accepted with an old secret`);
    refused += 1;
  }
}
assert(accepted > 0 && refused > 0);
console.log(`${accepted} accepted, ${refused} refused, as they should be`);
