import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { axisOf, idleGaps, ticks } from "./axis";
import { density, piecesOf } from "./bars";
import { type EventView, logEvent } from "./events";
import { barsOf, filtered, mapFacts, rowsOf, shownRows, took } from "./rows";
import { RunLog } from "./run-log";
import { isLeft, TimelineBuilder, totals } from "./timeline";

const SERVED = join(import.meta.dirname, "../../../tests/histories/served");
const SECOND = 1000;
const START = 1_793_523_600_000;

/** A log whose events are given as seconds since its creation, type and fields. */
function logOf(...events: [number, string, Record<string, unknown>?][]): RunLog {
  const log = new RunLog();
  let branch = 0;
  events.forEach(([second, type, fields = {}], at) => {
    if (type === "BranchOpened") branch = Number(fields.branch);
    const time = new Date(START + second * SECOND).toISOString();
    log.add([{ seq: at + 1, branch, time, type, text: type, fields } as EventView]);
  });
  return log;
}

const at = (second: number) => START + second * SECOND;
const begun = (
  second: number,
  node: string,
  attempt = 1,
  cause = "first",
): [number, string, Record<string, unknown>][] => [
  [second, "NodeScheduled", { node, attempt, cause }],
  [second, "NodeStarted", { node, attempt }],
];
const done = (second: number, node: string, attempt = 1, ms = 0): [number, string, Record<string, unknown>] => [
  second,
  "NodeCompleted",
  { node, attempt, ms, output: 1 },
];

const LOST = logOf(
  [0, "RunCreated"],
  [5, "RunTakenOver", { cause: "claimed", worker: "w1" }],
  [5, "RunStarted"],
  ...begun(6, "a"),
  done(8, "a", 1, 1500),
  ...begun(8, "b"),
  [40, "RunTakenOver", { cause: "dead", worker: "w2", previous: "w1", seen: new Date(at(9)).toISOString() }],
  [40, "NodeScheduled", { node: "b", attempt: 2, cause: "crash" }],
  [41, "NodeStarted", { node: "b", attempt: 2 }],
  [
    42,
    "NodeFailed",
    { node: "b", attempt: 2, error: { kind: "E" }, ms: 900, retry_at: new Date(at(45)).toISOString() },
  ],
  [45, "TimerFired", { timer: "retry:b" }],
  [45, "NodeScheduled", { node: "b", attempt: 3, cause: "retry" }],
  [45, "NodeStarted", { node: "b", attempt: 3 }],
  done(46, "b", 3, 1000),
  [46, "RunCompleted"],
);

describe("a run whose worker was lost", () => {
  const { timeline } = LOST;

  it("tells what each attempt came to, and who had it", () => {
    expect(timeline.attempts.map(({ node, attempt, outcome, worker }) => [node, attempt, outcome, worker])).toEqual([
      ["a", 1, "completed", "w1"],
      ["b", 1, "lost", "w1"],
      ["b", 2, "retrying", "w2"],
      ["b", 3, "completed", "w2"],
    ]);
  });

  it("ends a lost attempt where it was last heard of", () => {
    expect(timeline.attempts[1]).toMatchObject({ started: at(8), ended: at(9) });
  });

  it("tells what the run did", () => {
    expect(timeline.spans.map(({ kind, from, to }) => [kind, (from - START) / SECOND, (to - START) / SECOND])).toEqual([
      ["queued", 0, 5],
      ["work", 5, 9],
      ["nobody", 9, 40],
      ["work", 40, 42],
      ["retry", 42, 45],
      ["work", 45, 46],
    ]);
    expect(totals(timeline.spans)[0]).toMatchObject({ kind: "nobody", ms: 31 * SECOND });
  });

  it("marks what happened to the run, and who held it", () => {
    expect(timeline.marks.map((mark) => mark.kind)).toEqual(["takeover", "completed"]);
    expect(timeline.holdings.map(({ how, worker }) => [how, worker])).toEqual([
      ["queued", ""],
      ["claimed", "w1"],
      ["dead", "w2"],
      ["ended", ""],
    ]);
  });

  it("knows that a run without a takeover is held by the process that created it", () => {
    const { timeline } = logOf([0, "RunCreated"], [0, "RunStarted"], ...begun(0, "a"), done(1, "a"), [
      1,
      "RunCompleted",
    ]);
    expect(timeline.holdings.map(({ how }) => how)).toEqual(["queued", "started", "ended"]);
  });

  it("splits an attempt into queue, own work and the engine", () => {
    const axis = axisOf(at(0), at(46), 460);
    const [a, , second] = timeline.attempts;
    if (!a || !second) throw new Error("no attempts");
    expect(piecesOf(a, axis, at(46))).toEqual([
      { kind: "own", x: 60, width: 15 },
      { kind: "engine", x: 75, width: 5 },
    ]);
    expect(piecesOf(second, axis, at(46)).map(({ kind }) => kind)).toEqual(["queued", "failed", "engine", "retry"]);
  });

  it("collapses idle time to breaks of a fixed width", () => {
    const gaps = idleGaps(timeline.spans, at(0), at(46));
    expect(gaps.map((gap) => gap.kind)).toEqual(["queued", "nobody"]);
    const axis = axisOf(at(0), at(46), 400, gaps, 50);
    expect(axis.gaps.map(({ width }) => width)).toEqual([50, 50]);
    // ten seconds have the remaining 300 pixels
    expect(axis.x(at(5))).toBe(50);
    expect(axis.x(at(6)) - axis.x(at(5))).toBeCloseTo(30);
    expect(axis.x(at(46))).toBe(400);
    for (const second of [0, 3, 7, 20, 41.5, 44, 46]) expect(axis.time(axis.x(at(second)))).toBeCloseTo(at(second), 3);
    expect(ticks(axis).every((time) => gaps.every((gap) => time <= gap.from || time >= gap.to))).toBe(true);
  });
});

describe("a run that went back", () => {
  const log = logOf(
    [0, "RunCreated"],
    [0, "RunStarted"],
    ...begun(0, "a"),
    done(1, "a"),
    ...begun(1, "b"),
    done(2, "b"),
    [2, "InteractionRequested", { interaction: "ok", prompt: "Publish?" }],
    [12, "InteractionAnswered", { interaction: "ok", answer: true, by: "mara" }],
    [12, "RunCompleted"],
    [20, "BranchOpened", { branch: 1, parent: 0, cutoff: 4, cause: "jump" }],
    [20, "NodeCompleted", { node: "a", attempt: 1, adopted: 5 }],
    ...begun(20, "b"),
    done(21, "b"),
    [21, "RunCompleted"],
  );
  const { timeline } = log;
  const current = log.lineage(1);

  it("tells what was left, and what was taken over", () => {
    expect(timeline.attempts.map((attempt) => [attempt.node, attempt.branch, isLeft(attempt, current)])).toEqual([
      ["a", 0, false],
      ["b", 0, true],
      ["b", 1, false],
    ]);
    expect(timeline.waits.map((wait) => [wait.outcome, wait.by, isLeft(wait, current)])).toEqual([
      ["answered", "mara", true],
    ]);
  });

  it("has the rows of one branch, or of all", () => {
    expect(rowsOf(timeline).map((row) => [row.label, row.attempts.length + row.waits.length])).toEqual([
      ["a", 1],
      ["b", 2],
      ["ok", 1],
    ]);
    expect(rowsOf(timeline, 1).map((row) => row.label)).toEqual(["a", "b"]);
  });

  it("names whom it waited for, and that it was over", () => {
    expect(timeline.spans.map(({ kind, who }) => [kind, who])).toEqual([
      ["work", ""],
      ["person", "mara"],
      ["completed", ""],
      ["work", ""],
    ]);
  });
});

it("makes rows of groups, keys, maps and children", () => {
  const items = Array.from({ length: 20 }, (_, place) => `photos/resize/${place}`);
  const log = logOf(
    [0, "RunCreated"],
    [0, "RunStarted"],
    ...begun(0, "collect/fetch[north]"),
    done(1, "collect/fetch[north]"),
    ...items.flatMap((node, place) => begun(1 + place / 10, node)),
    ...items.slice(1).map((node, place) => done(4 + place / 10, node, 1, 100 + place)),
    [6, "NodeFailed", { node: items[0], error: { kind: "E" } }],
    [6, "ChildStarted", { child: "c1", node: "publish[eu]~b1", workflow: "publish" }],
    [9, "ChildEnded", { child: "c1", status: "completed" }],
  );
  const rows = rowsOf(log.timeline);
  expect(rows.map(({ kind, label, detail }) => [kind, label, detail])).toEqual([
    ["group", "collect", ""],
    ["map", "photos", "resize × 20"],
    ["child", "publish[eu]", ""],
  ]);
  expect(shownRows(rows, (row) => row.kind === "group").map(({ label, depth }) => [label, depth])).toEqual([
    ["collect", 0],
    ["fetch[north]", 1],
    ["photos", 0],
    ["publish[eu]", 0],
  ]);
  const [collect, map, child] = rows;
  if (!collect || !map || !child) throw new Error("no rows");
  expect(mapFacts(map)).toEqual({
    total: 20,
    completed: 19,
    failed: 1,
    running: 0,
    atOnce: 20,
    median: 109,
    longest: 118,
  });
  expect(barsOf(map)).toHaveLength(20);
  const axis = axisOf(at(0), at(10), 300);
  const shown = density(map.attempts, axis, at(10), 3);
  expect(shown.x).toBe(30);
  expect(Math.max(...shown.counts)).toBe(20);
  expect(took(child, log.lineage(0), at(10))).toEqual({ ms: 3 * SECOND, isRunning: false });
  expect(took(collect, log.lineage(0), at(10))).toEqual({ ms: SECOND, isRunning: false });
  expect(filtered(map, "failed").map((attempt) => attempt.node)).toEqual([items[0]]);
});

it("reads every golden history, and agrees with the fold on what is open", () => {
  for (const name of [
    "crash-and-takeover",
    "saga-compensation",
    "held-and-resumed",
    "children-cancelled-and-kept",
    "branch-and-adopt",
  ]) {
    const { events } = JSON.parse(readFileSync(join(SERVED, `${name}.json`), "utf8")) as { events: EventView[] };
    const timeline = new TimelineBuilder();
    for (const event of events) timeline.add(logEvent(event));
    const running = timeline.attempts.filter(
      (attempt) => attempt.outcome === "running" && !isLeft(attempt, timeline.lineage()),
    );
    const folded = [...timeline.state.nodes].filter(
      ([, node]) => node.status === "running" || node.status === "compensating",
    );
    const expected = timeline.state.is_over || timeline.state.held ? [] : folded.map(([node]) => node);
    expect([name, running.map((attempt) => attempt.node).sort()]).toEqual([name, expected.sort()]);
    const spans = timeline.spans;
    for (const [place, span] of spans.entries())
      expect(span.from).toBe(place ? spans[place - 1]?.to : timeline.created);
  }
});

it("loads a log in any pieces to the same rows", () => {
  const whole = LOST;
  const parts = new RunLog();
  const views = whole.events.map(
    (event) => ({ ...event, time: new Date(event.time / 1000).toISOString() }) as unknown as EventView,
  );
  for (let from = 0; from < views.length; from += 3)
    expect(parts.add(views.slice(Math.max(0, from - 1), from + 3))).toBe(true);
  expect(parts.timeline.attempts).toEqual(whole.timeline.attempts);
  expect(parts.add([{ ...views[0], seq: 99 } as EventView])).toBe(false);
});

it("shows a window of nothing but idle time as it is", () => {
  const gaps = idleGaps(LOST.timeline.spans, at(15), at(35));
  expect(gaps).toHaveLength(1);
  const axis = axisOf(at(15), at(35), 400, gaps);
  expect([axis.gaps, axis.x(at(25))]).toEqual([[], 200]);
});

it("never makes a break wider than its time", () => {
  const span = { kind: "timer" as const, who: "", from: at(10), to: at(11) };
  expect(axisOf(at(0), at(20), 400, [span], 60).gaps).toEqual([]);
  expect(axisOf(at(0), at(20), 400, [{ ...span, to: at(18) }], 60).gaps).toHaveLength(1);
});

it("counts the first of many calls of a node, which has no number, to their map", () => {
  const names = ["store", ...Array.from({ length: 13 }, (_, number) => `store#${number + 2}`)];
  const log = logOf([0, "RunCreated"], ...names.flatMap((name) => [...begun(1, name), done(2, name)]));
  expect(rowsOf(log.timeline).map((row) => [row.kind, row.label, row.detail])).toEqual([["map", "store", "× 14"]]);
});
