import assert from "node:assert/strict";
import { test } from "node:test";

import { Wakeful, WakefulError, report } from "wakeful";

import { alarms } from "./world.js";

test("an alarm is set, found, read and cancelled", async () => {
  const set = await alarms.set({ when: "in 1 hour", wake_message: "Tea", label: "tea", idempotency_key: "tea-1" });
  assert.equal(set.status, "active");
  const again = await alarms.set({ when: "in 1 hour", wake_message: "Tea", label: "tea", idempotency_key: "tea-1" });
  assert.deepEqual([again.id, again.deduped], [set.id, true]);
  const { alarms: found } = await alarms.list({ label: "tea", status: undefined });
  assert.deepEqual(found.map((alarm) => alarm.id), [set.id]);
  assert.equal((await alarms.get("tea-1")).wake_message, "Tea");
  assert.equal((await alarms.cancel(set.id, "no time")).status, "cancelled");
});

test("a wake is taken from an inbox and reported by its owner, or with its own token", async () => {
  for (const way of ["owner", "token"]) {
    await alarms.set({ delay_seconds: 0.1, wake_message: way, conversation_id: way });
    const [wake] = (await alarms.inbox({ wait: 30, conversation_id: way })).wakes;
    assert.equal(wake.message, way);
    const outcome = { outcome: "completed", result: "poured" };
    const fire = await (way === "owner" ? alarms.report(wake.fire_id, outcome) : report(wake, outcome));
    assert.deepEqual([fire.status, fire.result], ["completed", "poured"]);
  }
});

test("wakes are reported with the next request for more", async () => {
  await alarms.set({ delay_seconds: 0.1, wake_message: "done", conversation_id: "done" });
  const [wake] = (await alarms.inbox({ wait: 30, conversation_id: "done" })).wakes;
  await alarms.inbox({}, { [wake.fire_id]: "poured" });
  const again = await alarms.report(wake.fire_id, { outcome: "completed", result: "something else" });
  assert.equal(again.result, "poured");
});

test("what is too long for a report is cut", async () => {
  await alarms.set({ delay_seconds: 0.1, wake_message: "long", conversation_id: "long" });
  const [wake] = (await alarms.inbox({ wait: 30, conversation_id: "long" })).wakes;
  const result = `\0${"x".repeat(16_382)}😀`;
  const fire = await report(wake, { outcome: "completed", result });
  assert.equal(fire.result.length, 16_383);
});

test("a refusal says what is wrong and what to do", async () => {
  const refused = await alarms.set({ when: "at the fifth of never", wake_message: "Tea" }).catch((error) => error);
  assert.ok(refused instanceof WakefulError);
  assert.deepEqual([refused.status, refused.field, refused.temporary], [400, "when", false]);
  assert.match(refused.message, /never/);
  const missing = await alarms.get("nothing like it").catch((error) => error);
  assert.deepEqual([missing.status, missing.code], [404, "not_found"]);
});

test("a server that is not there is a temporary error", async () => {
  const away = new Wakeful("http://127.0.0.1:9/");
  const error = await away.list().catch((error) => error);
  assert.deepEqual([error.status, error.code, error.temporary], [0, "unreachable", true]);
});

test("a token is sent, and a redirect is not followed with it", async () => {
  const requests = [];
  const owner = new Wakeful("http://example.com/base/", {
    token: "wk_1",
    fetch: async (url, init) => (requests.push([url, init]), Response.json({ alarms: [] })),
  });
  await owner.list({ limit: 1 });
  const [[url, init]] = requests;
  assert.equal(url, "http://example.com/base/v1/alarms?limit=1");
  assert.deepEqual([init.headers.authorization, init.redirect], ["Bearer wk_1", "error"]);
});
