import { expect, it } from "vitest";
import type { components } from "../api/schema";
import { attemptsIn, type Offers, offersOf, opensBranch, ordinal } from "./actions";

type Detail = components["schemas"]["RunDetailView"];
const ALL = ["answer", "cancel", "activate", "fork", "jump", "pause", "repair", "resume", "retry", "read", "start"].map(
  (verb) => `runs:${verb}`,
);

const run = (changes: Partial<Detail>, ...actions: [string, Partial<Detail["actions"][number]>?][]): Detail =>
  ({
    ...{ run: "r", status: "running", held: false, questions: [], known_by: ["w"], branch: 0 },
    ...changes,
    actions: actions.map(([action, more]) => ({ action, useful: false, to: null, code: null, ...more })),
  }) as unknown as Detail;

const said = ({ first, row, menu }: Offers) => [
  first?.kind,
  row.map((each) => each.kind),
  menu.map((each) => each.kind),
];

it("offers the safe action of a failed run first", () => {
  const failed = run({ status: "failed" }, ["resume", { useful: true }], ["jump"]);
  expect(said(offersOf(failed, ALL))).toEqual(["resume", ["jump"], ["retry", "fork"]]);
});

it("offers to start a run that was created for later, also if no worker knows it yet", () => {
  const created = run({ status: "created", awaits_start: true, known_by: [] }, ["start", { useful: true }], ["cancel"]);
  expect(said(offersOf(created, ALL))).toEqual(["start", ["cancel"], ["fork"]]);
});

it("asks before a held run goes on", () => {
  const held = run(
    { status: "failed", held: true },
    ["resume", { useful: true }],
    ["cancel"],
    ["jump", { useful: true, to: "x" }],
  );
  expect(said(offersOf(held, ALL))).toEqual(["decide", ["cancel"], ["jump", "retry", "fork"]]);
});

it("goes back to a place where the engine names one", () => {
  const failed = run({ status: "failed" }, ["jump", { useful: true, to: "pay" }]);
  expect(offersOf(failed, ALL).first).toEqual({ kind: "jump", to: "pay" });
});

it("offers an approval by two buttons and any other answer by a form", () => {
  const question = (schema: unknown) => ({ questions: [{ schema }] }) as unknown as Partial<Detail>;
  const waiting = (schema: unknown) =>
    run({ status: "waiting", ...question(schema) }, ["answer"], ["cancel"], ["pause"]);
  expect(said(offersOf(waiting({ type: "boolean" }), ALL)).slice(0, 2)).toEqual(["approve", ["reject"]]);
  expect(said(offersOf(waiting({ type: "string" }), ALL)).slice(0, 2)).toEqual(["answer", []]);
});

it("offers to delete a run last, to who may", () => {
  const over = run({ status: "completed" }, ["jump"], ["delete"]);
  expect(said(offersOf(over, ALL))).toEqual([undefined, ["jump", "fork"], ["retry"]]);
  expect(said(offersOf(over, [...ALL, "runs:delete"]))).toEqual([undefined, ["jump", "fork"], ["retry", "delete"]]);
});

it("has no first action where nothing has to be done", () => {
  const running = run({}, ["pause"], ["cancel"], ["jump"]);
  expect(said(offersOf(running, ALL)).slice(0, 2)).toEqual([undefined, ["pause", "cancel"]]);
});

it("shows the command where no live worker knows the workflow", () => {
  const created = run({ status: "created", known_by: [] }, ["cancel"]);
  expect(said(offersOf(created, ALL)).slice(0, 2)).toEqual(["command", ["cancel"]]);
});

it("shows nothing to a role that may do nothing", () => {
  const failed = run({ status: "failed" }, ["resume", { useful: true }], ["jump"], ["cancel"]);
  expect(said(offersOf(failed, ["runs:read"]))).toEqual([undefined, [], []]);
});

it("offers nothing that the engine refuses", () => {
  const completed = run({ status: "completed", branch: 1 }, ["jump"], ["activate"]);
  expect(said(offersOf(completed, ALL))).toEqual([undefined, ["jump", "fork"], ["retry", "activate"]]);
});

it("reads attempts and branches from a plan", () => {
  const events = [
    { type: "BranchOpened", text: "", fields: { branch: 2, cutoff: 8 } },
    { type: "NodeScheduled", text: "", fields: { node: "a", attempt: 3 } },
  ] as unknown as components["schemas"]["PlannedEventView"][];
  expect(opensBranch(events)).toEqual({ branch: 2, cutoff: 8 });
  expect(attemptsIn(events)).toEqual([{ node: "a", attempt: 3 }]);
  expect([1, 2, 3, 4, 11, 12, 21, 112].map(ordinal).join(" ")).toBe("1st 2nd 3rd 4th 11th 12th 21st 112th");
});
