import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { receiver } from "wakeful";

import { SECRET, URL_OF_SERVER, ended, receiving, until, woken } from "./world.js";

const KEY = Buffer.from(SECRET.slice("whsec_".length), "base64");
const WAKE = {
  fire_id: "f-1",
  message: "hello",
  scheduled_for: "2026-01-01T00:00:00Z",
  report: { url: `${URL_OF_SERVER}/v1/nothing`, token: "" },
};

function post(text, { id = "f-1", headers = {}, at = Math.floor(Date.now() / 1000) } = {}) {
  const signature = `v1,${createHmac("sha256", KEY).update(`${id}.${at}.${text}`).digest("base64")}`;
  const said = { "webhook-id": id, "webhook-timestamp": String(at), "webhook-signature": signature, ...headers };
  return new Request("http://localhost/wake", { method: "POST", headers: said, body: text });
}

/** Something that ends when the test says so. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { opened, open };
}

test("a wake is answered at once, worked on, and what it led to is its result", async () => {
  const wakes = [];
  const onWake = async (wake) => {
    wakes.push(wake);
    return `3 new grants for ${wake.payload.portal}`;
  };
  await receiving(onWake, async () => {
    const alarm = await woken({ payload: { portal: "A" }, conversation_id: "s-1" });
    const fire = await ended(alarm);
    assert.deepEqual([fire.status, fire.result, fire.attempts], ["completed", "3 new grants for A", 1]);
    const [wake] = wakes;
    assert.deepEqual([wake.alarm_id, wake.conversation_id, wake.attempt, wake.number], [alarm.id, "s-1", 1, 1]);
  });
});

test("an exception is a failure, and the wake comes again", async () => {
  const attempts = [];
  const onWake = async (wake) => {
    attempts.push(wake.attempt);
    if (attempts.length === 1) throw new Error("the portal is down");
    return "done";
  };
  await receiving(onWake, async () => {
    const fire = await ended(await woken({ max_failures: 1, policy: { backoff_base: 1, exact_backoff: true } }));
    assert.deepEqual([fire.status, fire.result, attempts], ["completed", "done", [1, 2]]);
  });
});

test("a failure is recorded with its reason", async () => {
  const onWake = () => Promise.reject(new Error("the portal is down"));
  await receiving(onWake, async () => {
    const fire = await ended(await woken({ max_failures: 0 }));
    assert.deepEqual([fire.status, fire.last_error], ["failed", "Error: the portal is down"]);
  });
});

test("a wake that is worked on for longer than a report may take is not sent again", async () => {
  const { opened, open } = gate();
  await receiving(
    () => opened.then(() => "done"),
    async () => {
      const alarm = await woken({ policy: { report_within: 1, backoff_base: 1 } });
      const began = await ended(alarm, ["delivered", "waiting"]);
      const limit = Date.parse(began.delivered_at ?? began.started_at) + 3_000;
      await until(async () => Date.parse((await ended(alarm, ["delivered", "waiting"])).report_by) > limit);
      open();
      const fire = await ended(alarm);
      assert.deepEqual([fire.status, fire.attempts], ["completed", 1]);
    },
  );
});

test("a wake may be put off", async () => {
  let count = 0;
  const onWake = () => (++count === 1 ? { outcome: "snooze", for: 1 } : { outcome: "completed", result: "later" });
  await receiving(onWake, async () => {
    const fire = await ended(await woken());
    assert.deepEqual([fire.status, fire.result, count], ["completed", "later", 2]);
  });
});

test("a wake that comes twice is worked on once, while it runs and when it is done", async () => {
  const { opened, open } = gate();
  let count = 0;
  await receiving(
    () => (count++, opened),
    async ({ handle, requests }) => {
      const alarm = await woken();
      const [{ headers, body }] = await until(() => requests.length && requests);
      const again = () => handle(new Request("http://localhost/", { method: "POST", headers, body }));
      assert.equal((await again()).status, 202);
      open();
      assert.equal((await ended(alarm)).status, "completed");
      await handle.idle();
      assert.equal((await again()).status, 202);
      await handle.idle();
      assert.equal(count, 1);
    },
  );
});

test("requests that are no wakes are refused", async () => {
  const handle = receiver(SECRET, () => assert.fail("nothing is worked on"));
  const refusals = [
    [new Request("http://localhost/"), 405],
    [post(JSON.stringify(WAKE), { headers: { "webhook-signature": "v1,AAAA" } }), 401],
    [post(JSON.stringify(WAKE), { at: 1_000_000_000 }), 401],
    [post("x".repeat(1024 * 1024 + 1)), 413],
    [post("nothing"), 400],
    [post("null"), 400],
    [post(JSON.stringify({ ...WAKE, report: undefined })), 400],
  ];
  for (const [request, status] of refusals) assert.equal((await handle(request)).status, status);
});

test("more wakes than may run at once come again later", async () => {
  const { opened, open } = gate();
  const handle = receiver(SECRET, () => opened, { most: 1, onError: () => {} });
  const other = { ...WAKE, fire_id: "f-2" };
  assert.equal((await handle(post(JSON.stringify(WAKE)))).status, 202);
  const refused = await handle(post(JSON.stringify(other), { id: "f-2" }));
  assert.deepEqual([refused.status, refused.headers.get("retry-after")], [503, "30"]);
  open({ outcome: "nothing" });
});

test("the platform is told of the work, and waits for it", async () => {
  const works = [];
  const waitUntil = (work) => void works.push(work);
  await receiving(
    () => "done",
    async ({ handle, requests }) => {
      await ended(await woken());
      assert.equal(works.length, 1);
      await works[0];
      const [{ headers, body }] = requests;
      const own = [];
      await handle(new Request("http://localhost/", { method: "POST", headers, body }), { waitUntil: (work) => own.push(work) });
      assert.deepEqual([works.length, own.length], [1, 1]);
    },
    { waitUntil },
  );
});

test("a secret that anyone could have is refused at the start", () => {
  assert.throws(() => receiver("", () => {}), /secret/);
});
