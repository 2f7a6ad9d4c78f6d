/** Events as the API serves them, and the branches they belong to. */

import type { components } from "../api/schema";

export type EventView = components["schemas"]["EventView"];
export type Json = unknown;
type Fields = Record<string, Json>;

/** An event of a log, with its time in microseconds since 1970 (0 if it cannot be represented). */
export interface LogEvent {
  seq: number;
  branch: number;
  time: number;
  type: string;
  text: string;
  fields: Fields;
}

export interface Failure {
  kind: string;
  message?: string;
  trace?: string;
  category?: string;
  data?: Json;
}

const MICROS = /\.(\d{1,6})/;

/** Microseconds since 1970 of an ISO 8601 time; a JavaScript date has milliseconds only. */
export function micros(iso: string | null | undefined): number {
  if (!iso) return 0;
  const fraction = MICROS.exec(iso)?.[1] ?? "";
  const whole = Date.parse(fraction ? iso.replace(MICROS, "") : iso);
  return Number.isNaN(whole) ? 0 : whole * 1000 + Number(fraction.padEnd(6, "0"));
}

export function logEvent(view: EventView): LogEvent {
  return {
    seq: view.seq,
    branch: view.branch,
    time: micros(view.time),
    type: view.type,
    text: view.text,
    fields: view.fields,
  };
}

export const text = (event: LogEvent, name: string): string => {
  const found = event.fields[name];
  return typeof found === "string" ? found : "";
};
export const number = (event: LogEvent, name: string, otherwise = 0): number => {
  const found = event.fields[name];
  return typeof found === "number" ? found : otherwise;
};
export const flag = (event: LogEvent, name: string): boolean => event.fields[name] === true;
export const texts = (event: LogEvent, name: string): string[] => (event.fields[name] as string[] | undefined) ?? [];

/** The value of a search attribute; a time is in microseconds since 1970. */
export type AttributeValue = boolean | number | string | { time: number };
/** The search attributes of an event; those that it removes are null. */
export function attributes(event: LogEvent): Record<string, AttributeValue> {
  const given = (event.fields.attributes ?? {}) as components["schemas"]["RunView"]["attributes"];
  const values = Object.entries(given).map(([name, value]) => [
    name,
    value && typeof value === "object" ? { time: micros(value.time) } : value,
  ]);
  return Object.fromEntries(values);
}

export const failure = (event: LogEvent): Failure | null => (event.fields.error as Failure | null | undefined) ?? null;

/** A line of history: its own events begin at `first`; it left `parent` after event `cutoff`. */
export interface Branch {
  id: number;
  first: number;
  parent: number | null;
  cutoff: number;
}

/** First and last event, both included. */
export type Interval = [number, number];

export const ROOT: Branch = { id: 0, first: 1, parent: null, cutoff: 0 };

export function openedBranch(event: LogEvent): Branch {
  return {
    id: number(event, "branch"),
    first: event.seq,
    parent: number(event, "parent"),
    cutoff: number(event, "cutoff"),
  };
}

/** The intervals that a branch sees, oldest first, up to event `last`. Every lineage begins with the creation of the run. */
export function lineage(branches: ReadonlyMap<number, Branch>, branch: number, last: number): Interval[] {
  const intervals: Interval[] = [];
  let here = branches.get(branch);
  while (here) {
    if (here.first <= last) intervals.unshift([here.first, last]);
    if (here.parent === null || here.cutoff >= here.first) break;
    last = here.cutoff;
    here = branches.get(here.parent);
  }
  return intervals[0]?.[0] === 1 ? intervals : [[1, 1], ...intervals];
}
