import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { BadSignature, verify } from "wakeful";

const BYTES = Buffer.from("0123456789abcdef01234567");
const SECRET = `whsec_${BYTES.toString("base64")}`;
const NOW = 1_800_000_000;
const now = () => NOW * 1000;
const BODY = '{"message": "Grüße"}';

function sign(key, id, at, body) {
  return `v1,${createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64")}`;
}

function signed({ at = NOW, signature = sign(BYTES, "f-1", at, BODY) } = {}) {
  return { "Webhook-Id": "f-1", "webhook-timestamp": String(at), "webhook-signature": signature };
}

test("a signed request has the id of its fire", async () => {
  assert.equal(await verify(SECRET, signed(), BODY, { now }), "f-1");
  assert.equal(await verify(SECRET, new Headers(signed()), Buffer.from(BODY), { now }), "f-1");
});

test("a secret may be plain text", async () => {
  const signature = sign("correct horse", "f-1", NOW, BODY);
  assert.equal(await verify("correct horse", signed({ signature }), BODY, { now }), "f-1");
});

test("one of several signatures, and one of several secrets, is enough", async () => {
  const signature = `v1a,abc v1,!! ${sign("other", "f-1", NOW, BODY)} ${sign(BYTES, "f-1", NOW, BODY)}`;
  assert.equal(await verify(["third", SECRET], signed({ signature }), BODY, { now }), "f-1");
});

const refused = {
  "another body": [SECRET, signed(), `${BODY} `],
  "another secret": ["other", signed(), BODY],
  "another version": [SECRET, signed({ signature: sign(BYTES, "f-1", NOW, BODY).replace("v1", "v2") }), BODY],
  "no signature": [SECRET, { ...signed(), "webhook-signature": "" }, BODY],
  "an empty signature": [SECRET, { ...signed(), "webhook-signature": "v1," }, BODY],
  "no id": [SECRET, { ...signed(), "Webhook-Id": "" }, BODY],
  "a timestamp that is none": [SECRET, { ...signed(), "webhook-timestamp": "1e9" }, BODY],
  "more than five minutes ago": [SECRET, signed({ at: NOW - 301 }), BODY],
  "more than five minutes ahead": [SECRET, signed({ at: NOW + 301 }), BODY],
  "the eleventh signature": [SECRET, signed({ signature: `${"v1,AAAA ".repeat(10)}${sign(BYTES, "f-1", NOW, BODY)}` }), BODY],
};
for (const [name, [secret, headers, body]] of Object.entries(refused)) {
  test(`${name} is refused`, async () => {
    await assert.rejects(verify(secret, headers, body, { now }), BadSignature);
  });
}

test("five minutes are allowed, either way", async () => {
  for (const at of [NOW - 300, NOW + 300]) assert.equal(await verify(SECRET, signed({ at }), BODY, { now }), "f-1");
});

test("a secret that anyone could have is refused", async () => {
  for (const secret of ["", [], ["", SECRET], "whsec_", "whsec_!!"]) {
    await assert.rejects(verify(secret, signed(), BODY, { now }), /secret: it is empty/);
  }
});
