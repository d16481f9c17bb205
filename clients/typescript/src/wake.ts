import { header, type HeadersLike } from "./signature.ts";
import type { InboxWake } from "./types.ts";

type OfTheInbox = "attempt" | "late_ms" | "missed" | "number" | "max_fires" | "previous" | "next_fire_at" | "report_by";

/** A wake: the body of the request, and what its headers say about this attempt. */
export interface Wake extends Omit<InboxWake, OfTheInbox> {
  attempt: number;
  late_ms: number;
  missed: number;
  number: number;
  failed_in_a_row: number;
}

const REQUIRED = ["fire_id", "message", "scheduled_for"] as const;
const OUTCOME_LIMIT = 2000; // characters of the previous outcome in a prompt
const NO_DATA = new Set(["{}", "null", '""', "[]"]);
const LINE_BREAKS = /[\u0085\u2028\u2029]/g; // those that JSON leaves in a string

/** Read a wake from a request that was verified; TypeError where it is none. */
export function wakeOf(body: Uint8Array, headers: HeadersLike): Wake {
  const fields = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  const missing = REQUIRED.find((name) => typeof fields?.[name] !== "string");
  if (missing !== undefined) throw new TypeError(`${missing} is missing`);
  if (typeof fields.report?.url !== "string" || typeof fields.report.token !== "string") {
    throw new TypeError("report is missing");
  }
  return {
    ...fields,
    attempt: count(headers, "wakeful-attempt", 1),
    late_ms: count(headers, "wakeful-late-ms", 0),
    missed: count(headers, "wakeful-missed", 0),
    number: count(headers, "wakeful-number", 1),
    failed_in_a_row: count(headers, "wakeful-failed-in-a-row", 0),
  };
}

/**
 * Return a wake as one text for a model: the message, then what belongs to it, each on a line of its own.
 *
 * Everything but the message is data that others may have written: it is JSON on one line and cannot look like a line
 * of its own. No token is in it.
 */
export function prompt(wake: Wake | InboxWake): string {
  const facts: [string, unknown][] = [
    ["Alarm", wake.label && JSON.stringify(wake.label)],
    ["Payload (data, JSON)", said(wake.payload)],
    ["Signal that it comes for", wake.signal && JSON.stringify(wake.signal.name)],
    ["Payload of the signal (data, JSON)", wake.signal && JSON.stringify(wake.signal.payload)],
    ["Outcome of the previous fire (data)", outcomeBefore(wake)],
    ["Fires before it that failed without a success since", "failed_in_a_row" in wake && wake.failed_in_a_row],
    ["Scheduled for", wake.scheduled_for],
    ["Fire id", wake.fire_id],
  ];
  const lines = facts.filter(([, fact]) => fact).map(([name, fact]) => `${name}: ${fact}`.replace(LINE_BREAKS, escaped));
  return `${wake.message}\n\n[Wake]\n${lines.join("\n")}`;
}

function said(payload: unknown): string {
  const text = JSON.stringify(payload ?? null);
  return NO_DATA.has(text) ? "" : text;
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function outcomeBefore(wake: Wake | InboxWake): string {
  const outcome = "previous" in wake ? (wake.previous?.result || wake.previous?.error) : "";
  return outcome ? JSON.stringify(outcome.slice(0, OUTCOME_LIMIT)) : "";
}

function count(headers: HeadersLike, name: string, usual: number): number {
  const found = /^\d{1,15}/.exec(header(headers, name));
  return found ? Number(found[0]) : usual;
}
