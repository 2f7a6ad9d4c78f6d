import { expect, it } from "vitest";
import { parse } from "../api/json";
import { differences } from "./difference";

it("names the parts that differ by their paths", () => {
  const old = { output: { items: [{ price: 1 }, { price: 2 }], tone: "a" }, gone: 1 };
  const now = { output: { items: [{ price: 1 }, { price: 3 }, { price: 4 }], tone: "a" }, come: null };
  expect(differences(old, now)).toEqual([
    { path: "output.items[1].price", old: 2, new: 3 },
    { path: "output.items[2]", new: { price: 4 } },
    { path: "gone", old: 1 },
    { path: "come", new: null },
  ]);
});

it("compares large integers digit by digit", () => {
  const found = differences(parse("[9007199254740993]", true), parse("[9007199254740992]", true));
  expect(found.map((each) => each.path)).toEqual(["[0]"]);
  expect(differences(parse("[9007199254740993]", true), parse("[9007199254740993]", true))).toEqual([]);
});

it("stops at the number that is asked for", () => {
  expect(differences(Array(50).fill(1), Array(50).fill(2), "", 10)).toHaveLength(10);
});
