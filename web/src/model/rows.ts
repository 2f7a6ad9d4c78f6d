/**
 * The rows of the timeline: groups, maps, nodes, waits and children, as a tree in the order they began.
 *
 * A group is the part of a name before a slash. Nodes of one kind in one group are a map if there are more than `MANY`.
 */

import type { Interval } from "./events";
import { partsOf, plainName } from "./names";
import { type Attempt, type ChildBar, isLeft, type TimelineBuilder, type WaitBar } from "./timeline";

export const MANY = 12;

export type RowKind = "group" | "map" | "node" | "wait" | "child";

export interface Row {
  /** The name of the node, group or wait: unique in the run. */
  id: string;
  kind: RowKind;
  label: string;
  /** What stands behind the label: the name of a map's node, what a wait is for. */
  detail: string;
  depth: number;
  attempts: Attempt[];
  waits: WaitBar[];
  rows: Row[];
  /** Of a child run. */
  child?: ChildBar;
  /** The step that has the name of the group has completed. */
  first: number;
}

export type AttemptFilter = "all" | "last" | "failed";

/** The tree of rows. `branch` leaves out what no event of that branch's lineage belongs to. */
export function rowsOf(timeline: TimelineBuilder, branch: number | null = null): Row[] {
  const top: Row[] = [];
  const groups = new Map<string, Row>();
  const nodes = new Map<string, Row>();
  const intervals = branch === null ? null : timeline.lineage(branch);
  const isShown = (bar: Attempt | WaitBar) => !intervals || !isLeft(bar, intervals);

  const place = (path: string[], row: Row): void => {
    let siblings = top;
    let id = "";
    path.forEach((name, depth) => {
      id = id ? `${id}/${name}` : name;
      let group = groups.get(id);
      if (!group) {
        group = {
          id: `${id}/`,
          kind: "group",
          label: name,
          detail: "",
          depth,
          attempts: [],
          waits: [],
          rows: [],
          first: row.first,
        };
        groups.set(id, group);
        siblings.push(group);
      }
      siblings = group.rows;
    });
    row.depth = path.length;
    siblings.push(row);
  };

  for (const attempt of timeline.attempts) {
    if (!isShown(attempt)) continue;
    let row = nodes.get(attempt.node);
    if (!row) {
      const { groups: path, own } = partsOf(attempt.node);
      row = {
        id: attempt.node,
        kind: "node",
        label: own,
        detail: "",
        depth: 0,
        attempts: [],
        waits: [],
        rows: [],
        first: attempt.first,
      };
      nodes.set(attempt.node, row);
      place(path, row);
    }
    row.attempts.push(attempt);
  }
  const waits = new Map<string, Row>();
  for (const wait of timeline.waits) {
    if (!isShown(wait)) continue;
    const own = nodes.get(wait.node);
    if (own && wait.kind !== "child") {
      own.waits.push(wait);
      continue;
    }
    const id = `${wait.kind}:${nameOf(wait)}`;
    let row = waits.get(id);
    if (!row) {
      const { groups: path, own: label } = partsOf(nameOf(wait));
      const kind = wait.kind === "child" ? "child" : "wait";
      row = { id, kind, label, detail: "", depth: 0, attempts: [], waits: [], rows: [], first: wait.first };
      waits.set(id, row);
      place(path, row);
    }
    if (wait.kind === "child") row.child = wait as ChildBar;
    row.waits.push(wait);
  }
  return arranged(top);
}

/** A child has its node's name, any other wait its own; on every branch the same. */
const nameOf = (wait: WaitBar): string => plainName(wait.kind === "child" && wait.node ? wait.node : wait.id);

/** Siblings of one kind that are many become a map; a group of nothing but a map is that map. All in the order they began. */
function arranged(rows: Row[]): Row[] {
  const kinds = new Map<string, Row[]>();
  for (const row of rows) {
    if (row.kind === "group") row.rows = arranged(row.rows);
    if (row.kind !== "node" && row.kind !== "child") continue;
    const { groups, base } = partsOf(row.kind === "node" ? row.id : row.label);
    const kind = [...groups, base].join("/");
    const found = kinds.get(kind);
    if (found) found.push(row);
    else kinds.set(kind, [row]);
  }
  const mapped = new Map<Row, Row>();
  for (const [kind, items] of kinds) {
    const [first] = items;
    if (!first || items.length <= MANY) continue;
    const { base } = partsOf(first.kind === "node" ? first.id : first.label);
    const map: Row = {
      ...first,
      id: `${kind}[]`,
      kind: "map",
      label: base,
      detail: `× ${items.length}`,
      attempts: [],
      waits: [],
    };
    map.rows = items;
    map.attempts = items.flatMap((item) => item.attempts);
    for (const item of items) {
      mapped.set(item, map);
      item.depth += 1;
    }
  }
  const found = [...new Set(rows.map((row) => mapped.get(row) ?? row))].map(unwrapped);
  for (const row of found) row.first = Math.min(row.first, ...row.rows.slice(0, 1).map((each) => each.first));
  return found.sort((one, other) => one.first - other.first);
}

/** The group without the level that only holds a map: `photos` with the map `resize` is `photos` `resize × 200`. */
function unwrapped(group: Row): Row {
  const [map] = group.rows;
  if (group.kind !== "group" || group.rows.length !== 1 || map?.kind !== "map") return group;
  const detail = map.label === group.label ? map.detail : `${map.label} ${map.detail}`;
  for (const row of map.rows) row.depth -= 1;
  return { ...map, label: group.label, detail, depth: group.depth };
}

/** The rows that are seen, given which ones are open. */
export function shownRows(rows: readonly Row[], isOpen: (row: Row) => boolean, into: Row[] = []): Row[] {
  for (const row of rows) {
    into.push(row);
    if (row.rows.length && isOpen(row)) shownRows(row.rows, isOpen, into);
  }
  return into;
}

/** The attempts of a row that a filter shows: all, the last one of each node, or those that failed or were lost. */
export function filtered(row: Row, filter: AttemptFilter): Attempt[] {
  if (filter === "failed")
    return row.attempts.filter(({ outcome }) => outcome === "failed" || outcome === "retrying" || outcome === "lost");
  if (filter === "all") return row.attempts;
  const last = new Map(row.attempts.map((attempt) => [attempt.node, attempt]));
  return [...last.values()];
}

/** All attempts and waits of a row and of those below it. */
export function barsOf(row: Row, into: (Attempt | WaitBar)[] = []): (Attempt | WaitBar)[] {
  if (row.kind !== "map") into.push(...row.attempts, ...row.waits);
  for (const each of row.rows) barsOf(each, into);
  return into;
}

export const beginOf = (bar: Attempt | WaitBar): number => ("from" in bar ? bar.from : bar.scheduled);
export const endOf = (bar: Attempt | WaitBar, now: number): number =>
  "from" in bar ? (bar.to ?? now) : (bar.ended ?? now);

/** The times in which something of a row was at work, merged; what was left behind does not count. */
export function busy(row: Row, intervals: readonly Interval[], now: number): [number, number][] {
  const spans = barsOf(row)
    .filter((bar) => !isLeft(bar, intervals))
    .map((bar): [number, number] => [beginOf(bar), endOf(bar, now)])
    .sort((one, other) => one[0] - other[0]);
  return merged(spans);
}

/** Sorted spans, the overlapping ones joined. */
export function merged(spans: readonly [number, number][], gap = 0): [number, number][] {
  const found: [number, number][] = [];
  for (const [from, to] of spans) {
    const last = found.at(-1);
    if (last && from <= last[1] + gap) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

export interface MapFacts {
  total: number;
  completed: number;
  failed: number;
  running: number;
  /** The most that were at work at once. */
  atOnce: number;
  median: number;
  longest: number;
}

/** The counts of a map over the last attempt of each item. */
export function mapFacts(row: Row): MapFacts {
  const last = filtered(row, "last");
  const took = last.filter((each) => each.outcome === "completed").map((each) => each.own);
  took.sort((one, other) => one - other);
  const count = (...outcomes: Attempt["outcome"][]) => last.filter((each) => outcomes.includes(each.outcome)).length;
  return {
    total: last.length,
    completed: count("completed"),
    failed: count("failed"),
    running: count("running", "queued", "retrying"),
    atOnce: peak(row.attempts),
    median: took[Math.floor(took.length / 2)] ?? 0,
    longest: took.at(-1) ?? 0,
  };
}

function peak(attempts: readonly Attempt[]): number {
  const steps = attempts.flatMap((each): [number, number][] =>
    each.started === null || each.ended === null
      ? []
      : [
          [each.started, 1],
          [each.ended, -1],
        ],
  );
  steps.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  let now = 0;
  let most = 0;
  for (const [, step] of steps) {
    now += step;
    most = Math.max(most, now);
  }
  return most;
}

export interface Took {
  ms: number;
  isRunning: boolean;
}

/** How long a row took: the last attempt's own work, the wait, or from the begin to the end of a group. */
export function took(row: Row, intervals: readonly Interval[], now: number): Took | null {
  if (row.kind === "node" && row.attempts.length) {
    const kept = row.attempts.filter((each) => !isLeft(each, intervals));
    const last = (kept.length ? kept : row.attempts).at(-1);
    if (!last || last.started === null) return null;
    if (last.ended === null) return { ms: now - last.started, isRunning: true };
    return { ms: last.own || last.ended - last.started, isRunning: false };
  }
  const isWait = row.kind === "wait" || row.kind === "child";
  const bars = isWait ? row.waits : barsOf(row);
  const kept = bars.filter((bar) => !isLeft(bar, intervals));
  const all = kept.length ? kept : bars;
  if (!all.length) return null;
  const wait = isWait ? all.at(-1) : undefined;
  const isRunning = all.some((bar) => ("from" in bar ? bar.to : bar.ended) === null);
  if (wait) return { ms: endOf(wait, now) - beginOf(wait), isRunning };
  const from = all.reduce((least, bar) => Math.min(least, beginOf(bar)), Number.POSITIVE_INFINITY);
  const to = all.reduce((most, bar) => Math.max(most, endOf(bar, now)), 0);
  return { ms: to - from, isRunning };
}
