import { expect, it } from "vitest";
import type { components } from "../api/schema";
import { compareRows, endingOf, firstCause } from "./compare";

type Compared = components["schemas"]["ComparedEventView"];

const event = (seq: number, type: string, fields: Record<string, unknown> = {}) =>
  ({ seq, type, branch: 0, time: null, text: type, fields }) as unknown as NonNullable<Compared["left"]>;
const row = (verdict: Compared["verdict"], left: Compared["left"], right: Compared["right"], changes: unknown[] = []) =>
  ({ verdict, left, right, changes }) as unknown as Compared;

const comparison = {
  left: { run: "r", branch: 0, events: 6, ending: "completed" },
  right: { run: "r", branch: 1, events: 9, ending: "completed" },
  rows: [
    row(
      "right",
      null,
      event(7, "BranchOpened", {
        branch: 1,
        cutoff: 4,
        cause: "jump",
        redo: ["draft~b1"],
        by: "ines",
        reason: "too dry",
      }),
    ),
    row(
      "right",
      null,
      event(8, "NodeScheduled", { node: "draft", attempt: 2, inputs: { tone: "warm" }, feedback: null }),
    ),
    row("right", null, event(9, "NodeStarted", { node: "draft", attempt: 2, inputs: { tone: "warm", text: "x" } })),
    row(
      "differs",
      event(5, "NodeCompleted", { node: "draft", attempt: 1 }),
      event(10, "NodeCompleted", { node: "draft", attempt: 2 }),
      [
        { path: "attempt", old: 1, new: 2 },
        { path: "output.tone", old: "dry", new: "warm" },
      ],
    ),
    row("same", event(6, "NodeStarted", { node: "send" }), event(11, "NodeStarted", { node: "send" })),
    row("differs", event(12, "RunCompleted", { output: "a" }), event(13, "RunCompleted", { output: { n: 1 } }), [
      { path: "output", old: "a", new: { n: 1 } },
    ]),
  ],
} as unknown as components["schemas"]["ComparisonView"];

it("joins consecutive events of a node that only one side has", () => {
  const rows = compareRows(comparison);
  expect(rows.map((each) => each.verdict)).toEqual(["right", "right", "differs", "same", "differs"]);
  expect(rows[0]?.right).toMatchObject({
    what: "Branch 1 was opened",
    by: "ines",
    note: "jump to draft, after event 4: “too dry”",
  });
  expect(rows[1]?.right).toMatchObject({
    ...{ first: 8, last: 9, name: "draft", what: "scheduled, started", attempt: 2 },
    values: [{ path: "inputs", value: { tone: "warm" } }],
  });
});

it("shows only what differs, and not that the attempt is another one", () => {
  const changed = compareRows(comparison)[2];
  expect(changed?.left?.values).toEqual([{ path: "output.tone", value: "dry" }]);
  expect(changed?.right?.values).toEqual([{ path: "output.tone", value: "warm" }]);
});

it("names the first cause and the endings", () => {
  expect(firstCause(comparison)).toEqual({ node: "draft", what: "was called with", value: { tone: "warm" } });
  expect(endingOf(comparison, "left")).toEqual({ text: "a", hasResult: true });
  expect(endingOf(comparison, "right")).toEqual({ text: '{"n": 1}', hasResult: true });
});
