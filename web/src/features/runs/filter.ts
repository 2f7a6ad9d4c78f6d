/** What the list of runs shows. It is in the address, so that it can be shared. */

import type { View } from "@/api/client";
import { now } from "@/api/clock";
import { isCondition } from "@/model/attributes";
import type { Status } from "@/ui/StatusBadge";

export interface Filter {
  text: string;
  status: Status[];
  workflow: string;
  tag: string[];
  /** Conditions on search attributes: `customer=acme`, `total>=10`. */
  attribute: string[];
  queue: string;
  /** The search attribute that the list is sorted by, with `-` from the greatest down. */
  sort: string;
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
  attribute: [],
  queue: "",
  sort: "",
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

const SORT = /^-?[a-z][a-z0-9_]{0,62}$/;

export function filterOf(query: URLSearchParams): Filter {
  const started = query.get("started") ?? "";
  const until = query.get("until") ?? "";
  return {
    text: query.get("text") ?? "",
    status: query.getAll("status").filter((each): each is Status => ALL_STATUSES.includes(each as Status)),
    workflow: query.get("workflow") ?? "",
    tag: query.getAll("tag"),
    attribute: query.getAll("attribute").filter(isCondition),
    queue: query.get("queue") ?? "",
    sort: SORT.test(query.get("sort") ?? "") ? (query.get("sort") ?? "") : "",
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
  for (const condition of filter.attribute) query.append("attribute", condition);
  if (filter.queue) query.set("queue", filter.queue);
  if (filter.sort) query.set("sort", filter.sort);
  if (filter.started) query.set("started", filter.started);
  if (filter.until) query.set("until", filter.until);
  if (filter.children) query.set("children", "shown");
  if (filter.asks) query.set("asks", "true");
  return query;
}

/** The same as the API asks for it, without the order of the list. Held runs are failed ones with a flag. */
export function asked(filter: Filter) {
  const { isHeld, isFailed } = flags(filter);
  const statuses = new Set(filter.status.map((each) => (each === "held" ? "failed" : each)) as View<"RunStatus">[]);
  const since = STARTED[filter.started];
  return {
    ...(filter.text ? { text: filter.text } : {}),
    ...(statuses.size ? { status: [...statuses] } : {}),
    ...(filter.workflow ? { workflow: filter.workflow } : {}),
    ...(filter.tag.length ? { tag: filter.tag } : {}),
    ...(filter.attribute.length ? { attribute: filter.attribute } : {}),
    ...(filter.queue ? { queue: filter.queue } : {}),
    ...(since ? { since: Math.floor((now() / 1000 - since.seconds) * 1e6) } : {}),
    ...(filter.until ? { until: Math.floor(Date.parse(filter.until) * 1000) } : {}),
    ...(filter.children ? {} : { children: false }),
    ...(filter.asks ? { asks: true } : {}),
    ...(isHeld && !isFailed && isExact(filter) ? { held: true } : {}),
    ...(isFailed && !isHeld ? { held: false } : {}),
  };
}

function flags(filter: Filter) {
  return { isHeld: filter.status.includes("held"), isFailed: filter.status.includes("failed") };
}

/** Whether a run belongs to the statuses of the filter: the API has no condition for held runs among those of others. */
export function hasStatus(filter: Filter, status: Status): boolean {
  return !filter.status.length || filter.status.includes(status);
}

/** Whether the API can say this filter alone, without `hasStatus`: then an action can be asked for all that match. */
export function isExact(filter: Filter): boolean {
  const { isHeld, isFailed } = flags(filter);
  return !isHeld || isFailed || filter.status.length === 1;
}
