/** The golden histories, folded here and in Python, give the same states. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type Branch,
  type EventView,
  type Interval,
  type LogEvent,
  lineage,
  logEvent,
  openedBranch,
  ROOT,
} from "./events";
import { apply, fold, State } from "./fold";

interface Served {
  events: EventView[];
  branches: Record<string, { lineage: Interval[]; statuses: string[]; state: Record<string, unknown> }>;
}

const HISTORIES = join(import.meta.dirname, "../../../tests/histories");
const names = readdirSync(HISTORIES)
  .filter((name) => name.endsWith(".jsonl"))
  .map((name) => name.replace(".jsonl", ""));

function read(name: string): Served & { log: LogEvent[] } {
  const served: Served = JSON.parse(readFileSync(join(HISTORIES, "served", `${name}.json`), "utf8"));
  return { ...served, log: served.events.map(logEvent) };
}

function branchesOf(log: LogEvent[]): Map<number, Branch> {
  const opened = log.filter((event) => event.type === "BranchOpened").map(openedBranch);
  return new Map([ROOT, ...opened].map((branch) => [branch.id, branch]));
}

/** The state as the Python script writes it: tables as objects. */
function plain(state: State): unknown {
  const entries = Object.entries(state).map(([name, part]) => [
    name,
    part instanceof Map ? Object.fromEntries(part) : part,
  ]);
  return { ...Object.fromEntries(entries), status: state.status };
}

describe.each(names)("%s", (name) => {
  const { log, branches } = read(name);

  it.each(Object.keys(branches))("has the state of branch %s", (branch) => {
    const expected = branches[branch];
    const last = Math.max(0, ...log.filter((event) => event.branch === Number(branch)).map((event) => event.seq));
    const intervals = lineage(branchesOf(log), Number(branch), last);
    expect(intervals).toEqual(expected?.lineage);

    const seen = log.filter((event) => intervals.some(([first, end]) => first <= event.seq && event.seq <= end));
    const state = new State();
    const statuses = seen.map((event) => {
      apply(state, event);
      return state.status;
    });
    expect(statuses).toEqual(expected?.statuses);
    expect(plain(state)).toEqual(expected?.state);
  });

  it("amounts to the same summary", () => {
    const expected = JSON.parse(readFileSync(join(HISTORIES, `${name}.expected.json`), "utf8"));
    const seen = log.filter((event) =>
      (expected.lineage as Interval[]).some(([first, end]) => first <= event.seq && event.seq <= end),
    );
    const state = fold(new State(), seen);
    const { at, updated, run, waiting, waits, ...same } = expected.summary;
    expect({ ...state, status: state.status }).toMatchObject(same);
    expect([state.seq, state.time, state.waits.size]).toEqual([at, updated, waiting ?? 0]);
  });
});

it("reads every golden history", () => {
  expect(names.length).toBeGreaterThanOrEqual(15);
});
