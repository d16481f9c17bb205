/** What the tests share: the server that pytest started, and the receiver that its target `node` wakes. */
import { once } from "node:events";
import { createServer } from "node:http";

import { Wakeful, receiver } from "wakeful";
import { listener } from "wakeful/node";

export const URL_OF_SERVER = process.env.WAKEFUL_TEST_URL;
export const SECRET = process.env.WAKEFUL_TEST_SECRET;
export const alarms = new Wakeful(URL_OF_SERVER);

/** What is there once something is. */
export async function until(look) {
  for (const end = performance.now() + 60_000; performance.now() < end; ) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not within 60 seconds: ${look}`);
}

/** The receiver at the address of the target, while `work` runs; `requests` is what came in. */
export async function receiving(onWake, work, options = {}) {
  const requests = [];
  const handle = receiver(SECRET, onWake, options);
  const server = createServer(
    listener(async (request) => {
      requests.push({ headers: request.headers, body: Buffer.from(await request.clone().arrayBuffer()) });
      return handle(request);
    }),
  );
  server.listen(Number(process.env.WAKEFUL_TEST_PORT), "127.0.0.1");
  await once(server, "listening");
  try {
    await work({ handle, requests });
    await handle.idle();
  } finally {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  }
}

export function woken(fields = {}) {
  return alarms.set({ when: "in 1 second", wake_message: "Check the grant portal", target: "node", ...fields });
}

/** The fire of an alarm once it has ended. */
export function ended(alarm, statuses = ["completed", "failed", "timed_out"]) {
  return until(async () => {
    const answer = await fetch(`${URL_OF_SERVER}/v1/alarms/${alarm.id}/fires`);
    const { fires } = await answer.json();
    return fires.find((fire) => statuses.includes(fire.status));
  });
}
