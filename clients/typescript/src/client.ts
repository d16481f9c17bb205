import type {
  AlarmsAnswer,
  AlarmsFindQuery,
  AlarmView,
  CreatedAnswer,
  CreateRequest,
  DedupedAnswer,
  ChangedAnswer,
  FiresTakeQuery,
  InboxAnswer,
  InboxBody,
  Problem,
  ReportedAnswer,
  ReportRequest,
} from "./types.ts";

const WITHIN = 40_000; // milliseconds for a request; the server answers within 30 seconds
const LONGEST_TEXT = { result: 16_384, reason: 2_000 } as const; // what the server keeps; more does not pass its body limit

export interface Options {
  /** A token of an owner, or that of a wake. */
  token?: string;
  /** Instead of the global `fetch`. */
  fetch?: typeof fetch;
}

/** What the server refused, or why it could not be reached (`status` 0, `code` "unreachable"). */
export class WakefulError extends Error {
  override readonly name = "WakefulError";
  readonly status: number;
  readonly code: string;
  readonly field: string;
  readonly fix: string;
  /** The request is accepted with these fields so; null: without that one. */
  readonly repair: Readonly<Record<string, unknown>>;
  readonly retryAfter: number;

  constructor(problem: Partial<Problem> & Pick<Problem, "status" | "code" | "detail">, retryAfter = 0, cause?: unknown) {
    super(problem.detail, { cause });
    this.status = problem.status;
    this.code = problem.code;
    this.field = problem.field ?? "";
    this.fix = problem.fix ?? "";
    this.repair = problem.repair ?? {};
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get temporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** A wakeful server. */
export class Wakeful {
  readonly #url: string;
  readonly #options: Options;

  constructor(url: string, options: Options = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#options = options;
  }

  /** Set an alarm. The same `idempotency_key` returns the same alarm, with `deduped`. */
  set(alarm: CreateRequest): Promise<CreatedAnswer | DedupedAnswer> {
    return this.#ask("POST", "/v1/alarms", {}, alarm);
  }

  /** List alarms, newest first; `next_cursor` of the answer is the `cursor` of the next page. */
  list(filters: AlarmsFindQuery = {}): Promise<AlarmsAnswer> {
    return this.#ask("GET", "/v1/alarms", filters);
  }

  /** One alarm, by its id or key. */
  get(id: string): Promise<AlarmView & { now: string }> {
    return this.#ask("GET", `/v1/alarms/${encodeURIComponent(id)}`);
  }

  cancel(id: string, reason = ""): Promise<ChangedAnswer> {
    return this.#ask("DELETE", `/v1/alarms/${encodeURIComponent(id)}`, reason ? { reason } : {});
  }

  /** Say what became of a fire, as its owner. A receiver uses the function `report` and the token of its wake. */
  report(fireId: string, outcome: ReportRequest): Promise<ReportedAnswer> {
    return this.#ask("POST", `/v1/fires/${encodeURIComponent(fireId)}/report`, {}, cut(outcome));
  }

  /** Take the wakes that are due, oldest first; `wait` seconds for one. `done`: what came of earlier ones. */
  inbox(query: FiresTakeQuery = {}, done: NonNullable<InboxBody["done"]> = {}): Promise<InboxAnswer> {
    return this.#ask("POST", "/v1/inbox", query, { done }, (query.wait ?? 0) * 1000);
  }

  #ask<T>(method: string, path: string, query: object = {}, body?: unknown, waiting = 0): Promise<T> {
    const said = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(said.map(([name, value]) => [name, String(value)])).toString();
    return ask(method, `${this.#url}${path}${search && `?${search}`}`, body, this.#options, WITHIN + waiting);
  }
}

/** Say what became of a wake, to the address and with the token that it brought. */
export function report(
  wake: { readonly report: { readonly url: string; readonly token: string } },
  outcome: ReportRequest,
  options: Pick<Options, "fetch"> = {},
): Promise<ReportedAnswer> {
  return ask("POST", wake.report.url, cut(outcome), { ...options, token: wake.report.token }, WITHIN);
}

function cut(outcome: ReportRequest): ReportRequest {
  const short = { ...outcome };
  for (const [name, most] of Object.entries(LONGEST_TEXT) as [keyof typeof LONGEST_TEXT, number][]) {
    const text = short[name];
    if (text !== undefined) short[name] = text.slice(0, most).toWellFormed().replaceAll("\0", "");
  }
  return short;
}

async function ask<T>(method: string, url: string, body: unknown, options: Options, within: number): Promise<T> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (options.token) headers["authorization"] = `Bearer ${options.token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const sent: RequestInit = { method, headers, redirect: "error", signal: AbortSignal.timeout(within) };
  if (body !== undefined) sent.body = JSON.stringify(body);
  let response: Response;
  let text: string;
  try {
    response = await (options.fetch ?? fetch)(url, sent);
    text = await response.text();
  } catch (error) {
    const detail = `no answer from ${new URL(url).origin}: ${String(error)}`;
    throw new WakefulError({ status: 0, code: "unreachable", detail }, 0, error);
  }
  if (!response.ok) throw refusal(response, text);
  return JSON.parse(text) as T;
}

function refusal(response: Response, text: string): WakefulError {
  const after = Number(response.headers.get("retry-after")) || 0;
  try {
    return new WakefulError({ ...(JSON.parse(text) as Problem), status: response.status }, after);
  } catch {
    return new WakefulError({ status: response.status, code: "unexpected", detail: text.slice(0, 200) }, after);
  }
}
