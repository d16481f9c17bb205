import { report, WakefulError } from "./client.ts";
import { BadSignature, keysOf, verify } from "./signature.ts";
import type { ReportedAnswer, ReportRequest } from "./types.ts";
import { wakeOf, type Wake } from "./wake.ts";

/** What a wake leads to: a text is the result, nothing is an empty one, and an exception a failure, which is retried. */
export type OnWake = (wake: Wake) => Promise<string | ReportRequest | void> | string | ReportRequest | void;

/** What some platforms hand over with each request; the work goes on until it has ended. */
export interface Context {
  waitUntil?: (work: Promise<unknown>) => void;
}

export interface ReceiverOptions extends Context {
  /** The most wakes at once; a further one is answered 503 and comes again. 100 unless given. */
  most?: number;
  /** Told what went wrong in the background, such as a report that was refused; `console.error` unless given. */
  onError?: (error: unknown, wake: Wake) => void;
}

/** A handler of requests, in the style of fetch. */
export interface Receiver {
  (request: Request, context?: Context): Promise<Response>;
  /** Resolves when no wake is worked on. */
  idle(): Promise<void>;
}

const BODY_LIMIT = 1024 * 1024; // bytes
const REMEMBERED = 10_000; // fire ids of wakes that are done
const FIRST_RENEWAL = 300; // milliseconds; most wakes are done before
const SHORTEST_RENEWAL = 100; // milliseconds
const REFUSALS = 3; // of `working`, in a row: the 202 for the wake may not be on record yet
const RENEW_AT = 1 / 3; // of the time allowed: two reports may get lost
const PAUSES = [100, 500, 2_000, 5_000, 10_000, 30_000, 60_000]; // milliseconds between reports that do not get through

/**
 * Return a handler that calls `onWake` for every wake posted to it.
 *
 * `secret`: that of the webhook target, or several while it is changed; the target needs `reports = true`. It checks
 * the signature, answers 202 at once, calls `onWake` in the background, reports `working` while that runs, and then
 * what came of it. A wake that comes twice is worked on once.
 */
export function receiver(secret: string | readonly string[], onWake: OnWake, options: ReceiverOptions = {}): Receiver {
  keysOf(secret); // a wrong one is refused at the start
  const { most = 100, onError = (error: unknown) => console.error(error) } = options;
  const underWay = new Map<string, Promise<void>>();
  const outcomes = new Outcomes();

  async function receive(request: Request, context: Context = {}): Promise<Response> {
    if (request.method !== "POST") return answer(405, "a wake is a POST", { allow: "POST" });
    const wake = await checked(secret, request);
    return wake instanceof Response ? wake : accept(wake, context);
  }

  function accept(wake: Wake, context: Context): Response {
    if (underWay.has(wake.fire_id)) return new Response(null, { status: 202 });
    if (underWay.size >= most) return answer(503, "as many wakes as may run are running", { "retry-after": "30" });
    const work = handled(wake)
      .catch((error: unknown) => onError(error, wake))
      .finally(() => underWay.delete(wake.fire_id));
    underWay.set(wake.fire_id, work);
    if (context.waitUntil) context.waitUntil(work);
    else options.waitUntil?.(work);
    return new Response(null, { status: 202 });
  }

  async function handled(wake: Wake): Promise<void> {
    const renewing = renewal(wake);
    try {
      const outcome = outcomes.of(wake.fire_id) ?? (await outcomeOf(onWake, wake));
      if (outcome.outcome === "completed") outcomes.keep(wake.fire_id, outcome);
      await reported(wake, outcome);
    } finally {
      renewing.stop();
    }
  }

  return Object.assign(receive, {
    async idle(): Promise<void> {
      while (underWay.size > 0) await Promise.all(underWay.values());
    },
  });
}

/** What completed, by fire id: if the wake comes again, that is reported again, and nothing is done again. */
class Outcomes {
  readonly #kept = new Map<string, ReportRequest>();

  of(fireId: string): ReportRequest | undefined {
    return this.#kept.get(fireId);
  }

  keep(fireId: string, outcome: ReportRequest): void {
    this.#kept.set(fireId, outcome);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > REMEMBERED && oldest !== undefined) this.#kept.delete(oldest);
  }
}

async function checked(secret: string | readonly string[], request: Request): Promise<Wake | Response> {
  const body = await bodyOf(request);
  if (body === undefined) return answer(413, `a wake has at most ${BODY_LIMIT} bytes`);
  try {
    await verify(secret, request.headers, body);
    return wakeOf(body, request.headers);
  } catch (error) {
    if (error instanceof BadSignature) return answer(401, error.message);
    return answer(400, `this is not a wake: ${(error as Error).message}`);
  }
}

async function bodyOf(request: Request): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    parts.push(read.value);
    if ((size += read.value.length) > BODY_LIMIT) {
      void reader?.cancel().catch(() => {});
      return undefined;
    }
  }
  const body = new Uint8Array(size);
  parts.reduce((at, part) => (body.set(part, at), at + part.length), 0);
  return body;
}

async function outcomeOf(onWake: OnWake, wake: Wake): Promise<ReportRequest> {
  try {
    const came = await onWake(wake);
    if (typeof came === "object" && came !== null) return came;
    return { outcome: "completed", result: came === undefined ? "" : String(came) };
  } catch (error) {
    return { outcome: "failed", reason: String(error) };
  }
}

/** Report until it gets through. A snooze, and `working`, may come before the 202 for the wake is on record: 409. */
async function reported(wake: Wake, outcome: ReportRequest): Promise<ReportedAnswer> {
  for (const pause of PAUSES) {
    try {
      return await report(wake, outcome);
    } catch (error) {
      if (!(error instanceof WakefulError) || !(error.temporary || tooEarly(error, outcome, pause))) throw error;
      await asleep(Math.max(pause, error.retryAfter * 1000));
    }
  }
  return report(wake, outcome);
}

function tooEarly(error: WakefulError, outcome: ReportRequest, pause: number): boolean {
  return error.status === 409 && outcome.outcome === "snooze" && pause <= 2_000;
}

/** Report `working` while it runs, at a third of the time that the server then allows. */
function renewal(wake: Wake): { stop(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;
  let refusals = 0;
  const renew = async (): Promise<void> => {
    const next = await report(wake, { outcome: "working" }).then(renewedIn, (error: unknown) => {
      const temporary = error instanceof WakefulError && error.temporary;
      return temporary || ++refusals < REFUSALS ? FIRST_RENEWAL * 2 ** refusals : undefined; // taken back, or reported
    });
    if (!stopped && next !== undefined) timer = setTimeout(renew, Math.max(next, SHORTEST_RENEWAL));
  };
  timer = setTimeout(renew, FIRST_RENEWAL);
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

function renewedIn(fire: ReportedAnswer): number | undefined {
  return fire.report_by === undefined ? undefined : (Date.parse(fire.report_by) - Date.parse(fire.now)) * RENEW_AT;
}

function answer(status: number, text: string, headers: Record<string, string> = {}): Response {
  return new Response(`${text}\n`, { status, headers });
}

function asleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
