import { expect, it } from "vitest";
import { attemptsByNode } from "./attempts-of";
import type { LogEvent } from "./events";

const log = (...events: [type: string, branch: number, fields: Record<string, unknown>][]): LogEvent[] =>
  events.map(([type, branch, fields], at) => ({ seq: at + 1, time: at * 1_000_000, text: "", type, branch, fields }));

it("gives each attempt its inputs, output and error", () => {
  const found = attemptsByNode(
    log(
      ["NodeScheduled", 0, { node: "a", attempt: 1 }],
      ["NodeStarted", 0, { node: "a", attempt: 1, inputs: { x: 1 } }],
      ["NodeFailed", 0, { node: "a", attempt: 1, error: { kind: "E", message: "no" } }],
      ["NodeScheduled", 0, { node: "a", attempt: 2, feedback: "again" }],
      ["NodeStarted", 0, { node: "a", attempt: 2, inputs: { x: 1 } }],
      ["NodeCheckpointed", 0, { node: "a", attempt: 2, data: 7 }],
      ["NodeCompleted", 0, { node: "a", attempt: 2, output: 3 }],
    ),
  ).get("a");
  expect(found).toHaveLength(2);
  expect(found?.[0]).toMatchObject({ attempt: 1, inputs: { x: 1 }, error: { message: "no" } });
  expect(found?.[1]).toMatchObject({ attempt: 2, feedback: "again", checkpoint: 7, output: 3, error: null });
});

it("keeps what another branch gave as an attempt of its own", () => {
  const found = attemptsByNode(
    log(
      ["NodeScheduled", 0, { node: "a", attempt: 1 }],
      ["NodeStarted", 0, { node: "a", attempt: 1, inputs: { x: 1 } }],
      ["NodeCompleted", 0, { node: "a", attempt: 1, output: 1 }],
      ["NodeCompleted", 1, { node: "a", attempt: 1, output: 2, by: "ann" }],
    ),
  ).get("a");
  expect(found?.map(({ branch, output, inputs, by }) => ({ branch, output, inputs, by }))).toEqual([
    { branch: 0, output: 1, inputs: { x: 1 }, by: "" },
    { branch: 1, output: 2, inputs: { x: 1 }, by: "ann" },
  ]);
});

it("counts an attempt that began before its branch opened and ended on it once", () => {
  const found = attemptsByNode(
    log(
      ["NodeScheduled", 0, { node: "a", attempt: 1 }],
      ["NodeStarted", 0, { node: "a", attempt: 1, inputs: null }],
      ["NodeCompleted", 1, { node: "a", attempt: 1, output: 2 }],
    ),
  ).get("a");
  expect(found).toHaveLength(1);
  expect(found?.[0]).toMatchObject({ branch: 1, output: 2, first: 1 });
});
