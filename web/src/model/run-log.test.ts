import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { EventView } from "./events";
import { fold, State } from "./fold";
import { rowsOf } from "./rows";
import { RunLog } from "./run-log";

const SERVED = join(import.meta.dirname, "../../../tests/histories/served");

function read(name: string): { log: RunLog; events: EventView[] } {
  const { events } = JSON.parse(readFileSync(join(SERVED, `${name}.json`), "utf8")) as { events: EventView[] };
  const log = new RunLog();
  log.add(events);
  return { log, events };
}

it("has the states of every branch at every instant", () => {
  const { log } = read("branch-and-adopt");
  for (const branch of [0, 1, 2])
    for (let at = 1; at <= log.seq; at++) {
      const seen = log.eventsOf(branch, at);
      expect(seen.every((event) => event.seq <= at)).toBe(true);
      expect(log.stateOf(branch, at)).toEqual(fold(new State(), seen));
    }
  expect(log.stateOf(2)).toBe(log.timeline.state);
  expect(log.branchAt(16)).toBe(1);
});

it("shows the timeline of any instant, forward and back", () => {
  const { log, events } = read("crash-and-takeover");
  for (const at of [3, 9, 10, 6, log.seq, 12]) {
    const until = new RunLog();
    until.add(events.slice(0, at));
    const seen = log.timelineAt(at);
    expect(seen.attempts).toEqual(until.timeline.attempts);
    expect(seen.spans).toEqual(until.timeline.spans);
    expect(rowsOf(seen).map((row) => row.id)).toEqual(rowsOf(until.timeline).map((row) => row.id));
  }
  expect(log.timelineAt(null)).toBe(log.timeline);
  expect(log.timelineAt(4)).not.toBe(log.timelineAt(5));
});

it("drops events that are known, and says when some are missing", () => {
  const { events } = read("plain-success");
  const log = new RunLog();
  expect(log.add(events.slice(0, 4))).toBe(true);
  expect(log.add(events.slice(2, 6))).toBe(true);
  expect(log.seq).toBe(6);
  expect(log.add(events.slice(7))).toBe(false);
  expect(log.version).toBe(6);
});
