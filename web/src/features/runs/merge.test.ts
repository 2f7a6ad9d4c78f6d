import { expect, it } from "vitest";
import type { View } from "@/api/client";
import { merged } from "./merge";

const run = (id: string, second: number, status = "running") =>
  ({ run: id, created: `2026-11-18T20:00:${String(second).padStart(2, "0")}Z`, status }) as View<"RunView">;
const ids = (rows: View<"RunView">[]) => rows.map((each) => each.run);

const first = merged(null, [run("c", 3), run("b", 2)], false);

it("shows the first answer as it is", () => {
  expect(first).toEqual({ rows: [run("c", 3), run("b", 2)], gone: new Set(), waiting: 0 });
});

it("announces new runs and moves nothing", () => {
  const next = merged(first, [run("e", 5), run("d", 4), run("c", 3, "failed"), run("b", 2)], false);
  expect(ids(next.rows)).toEqual(["c", "b"]);
  expect(next.rows[0]?.status).toBe("failed");
  expect(next.waiting).toBe(2);
});

it("announces a run that begins to match between others", () => {
  const next = merged(merged(null, [run("c", 3), run("a", 1)], true), [run("c", 3), run("b", 2), run("a", 1)], true);
  expect(ids(next.rows)).toEqual(["c", "a"]);
  expect(next.waiting).toBe(1);
});

it("adds older runs at the end", () => {
  const next = merged(first, [run("c", 3), run("b", 2), run("a", 1)], true);
  expect(ids(next.rows)).toEqual(["c", "b", "a"]);
  expect(next.waiting).toBe(0);
});

it("leaves runs that no longer match in their place", () => {
  const next = merged(first, [run("b", 2)], false);
  expect(ids(next.rows)).toEqual(["c", "b"]);
  expect(next.gone).toEqual(new Set(["c"]));
});

it("does not take a run for gone because the page ends before it", () => {
  const next = merged(first, [run("d", 4), run("c", 3)], false);
  expect(next.gone).toEqual(new Set());
});

it("shows what comes to an empty list", () => {
  expect(ids(merged(merged(null, [], true), [run("a", 1)], true).rows)).toEqual(["a"]);
});
