/** What the list of runs shows. It is in the address, so that it can be shared. */

import type { View } from "@/api/client";
import { now } from "@/api/clock";
import type { Status } from "@/ui/StatusBadge";

export interface Filter {
  text: string;
  status: Status[];
  workflow: string;
  tag: string[];
  /** Created in the last `1h`, `24h`, `7d` or `30d`. */
  started: string;
  /** Created before this moment (ISO 8601): older pages of the list. */
  until: string;
  /** Whether children of other runs are shown. */
  children: boolean;
  /** Only runs that wait for a person: they ask a question, or are held. */
  asks: boolean;
}

export const NOTHING: Filter = {
  text: "",
  status: [],
  workflow: "",
  tag: [],
  started: "",
  until: "",
  children: false,
  asks: false,
};

export const STARTED: Record<string, { text: string; seconds: number }> = {
  "1h": { text: "last hour", seconds: 3600 },
  "24h": { text: "last 24 h", seconds: 86_400 },
  "7d": { text: "last 7 days", seconds: 7 * 86_400 },
  "30d": { text: "last 30 days", seconds: 30 * 86_400 },
};

export const ALL_STATUSES: Status[] = [
  "running",
  "waiting",
  "held",
  "failed",
  "paused",
  "compensating",
  "created",
  "completed",
  "cancelled",
];

export function filterOf(query: URLSearchParams): Filter {
  const started = query.get("started") ?? "";
  const until = query.get("until") ?? "";
  return {
    text: query.get("text") ?? "",
    status: query.getAll("status").filter((each): each is Status => ALL_STATUSES.includes(each as Status)),
    workflow: query.get("workflow") ?? "",
    tag: query.getAll("tag"),
    started: started in STARTED ? started : "",
    until: Number.isNaN(Date.parse(until)) ? "" : until,
    children: query.get("children") === "shown",
    asks: query.get("asks") === "true",
  };
}

export function queryOf(filter: Filter): URLSearchParams {
  const query = new URLSearchParams();
  if (filter.text) query.set("text", filter.text);
  for (const status of filter.status) query.append("status", status);
  if (filter.workflow) query.set("workflow", filter.workflow);
  for (const tag of filter.tag) query.append("tag", tag);
  if (filter.started) query.set("started", filter.started);
  if (filter.until) query.set("until", filter.until);
  if (filter.children) query.set("children", "shown");
  if (filter.asks) query.set("asks", "true");
  return query;
}

/** The same as the API asks for it. Held runs are failed ones with a flag: with both the flag does not matter. */
export function asked(filter: Filter) {
  const isHeld = filter.status.includes("held");
  const isFailed = filter.status.includes("failed");
  const statuses = new Set(filter.status.map((each) => (each === "held" ? "failed" : each)) as View<"RunStatus">[]);
  const since = STARTED[filter.started];
  const others = filter.status.some((each) => each !== "held" && each !== "failed");
  return {
    ...(filter.text ? { text: filter.text } : {}),
    ...(statuses.size ? { status: [...statuses] } : {}),
    ...(filter.workflow ? { workflow: filter.workflow } : {}),
    ...(filter.tag.length ? { tag: filter.tag } : {}),
    ...(since ? { since: Math.floor((now() / 1000 - since.seconds) * 1e6) } : {}),
    ...(filter.until ? { until: Math.floor(Date.parse(filter.until) * 1000) } : {}),
    ...(filter.children ? {} : { children: false }),
    ...(filter.asks ? { asks: true } : {}),
    ...(isHeld && !isFailed && !others ? { held: true } : {}),
    ...(isFailed && !isHeld && !others ? { held: false } : {}),
  };
}

/** Whether a run belongs to the statuses of the filter: the API cannot tell held runs from failed ones among others. */
export function hasStatus(filter: Filter, status: Status): boolean {
  return !filter.status.length || filter.status.includes(status);
}

/** Whether the API can say this filter alone, without `hasStatus`: then an action can be asked for all that match. */
export function isExact(filter: Filter): boolean {
  const isHeld = filter.status.includes("held");
  const isFailed = filter.status.includes("failed");
  return isHeld === isFailed || !filter.status.some((each) => each !== "held" && each !== "failed");
}
