/** The headers of a request: those of fetch, or Node's object. */
export type HeadersLike = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface VerifyOptions {
  /** Seconds that the request's timestamp may be away from now; 300 unless given. */
  tolerance?: number;
  /** The current time in milliseconds. */
  now?: () => number;
}

/** The signature does not match the secret, or the request is too old. */
export class BadSignature extends Error {
  override readonly name = "BadSignature";
}

const PREFIX = "whsec_";
const SIGNATURES = 10; // of one request; more are ignored
const encoder = new TextEncoder();

/**
 * Check a received wake and return its fire id; BadSignature if anything is wrong.
 *
 * `secret`: that of the webhook target, or several while it is changed. `body`: the exact bytes received. A wake can
 * come more than once under the same fire id: remember those already seen, or use `receiver`, which does.
 */
export async function verify(
  secret: string | readonly string[],
  headers: HeadersLike,
  body: string | Uint8Array,
  { tolerance = 300, now = Date.now }: VerifyOptions = {},
): Promise<string> {
  const keys = keysOf(secret);
  const id = header(headers, "webhook-id");
  const sent = header(headers, "webhook-timestamp");
  if (!id || !/^\d{1,12}$/.test(sent)) {
    throw new BadSignature("webhook-id or webhook-timestamp is missing or malformed");
  }
  if (Math.abs(now() / 1000 - Number(sent)) > tolerance) {
    throw new BadSignature("webhook-timestamp is too far from now");
  }
  const signed = joined(encoder.encode(`${id}.${sent}.`), typeof body === "string" ? encoder.encode(body) : body);
  const offered = header(headers, "webhook-signature").split(" ").slice(0, SIGNATURES);
  // Every pair is compared, each in constant time, so that the time taken reveals nothing.
  const pairs = keys.flatMap((key) => offered.map((signature) => matches(key, signature, signed)));
  if (!(await Promise.all(pairs)).includes(true)) throw new BadSignature("no signature matches");
  return id;
}

/** The bytes behind each secret: `whsec_` and base64, or plain text. */
export function keysOf(secret: string | readonly string[]): Uint8Array<ArrayBuffer>[] {
  const secrets = typeof secret === "string" ? [secret] : secret;
  const keys = secrets.map((text) => (text.startsWith(PREFIX) ? fromBase64(text.slice(PREFIX.length)) : encoder.encode(text)));
  if (keys.length === 0 || keys.some((key) => key === undefined || key.length === 0)) {
    throw new TypeError("secret: it is empty, or what follows whsec_ is not base64. Give whsec_ and base64, or plain text.");
  }
  return keys as Uint8Array<ArrayBuffer>[];
}

export function header(headers: HeadersLike, name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1] ?? "";
  return typeof found === "string" ? found : found.join(", ");
}

async function matches(key: Uint8Array<ArrayBuffer>, signature: string, signed: Uint8Array<ArrayBuffer>): Promise<boolean> {
  const bytes = signature.startsWith("v1,") ? fromBase64(signature.slice(3)) : undefined;
  const hmac = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  return crypto.subtle.verify("HMAC", hmac, bytes ?? new Uint8Array(), signed);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}
