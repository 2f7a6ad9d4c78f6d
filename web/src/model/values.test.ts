import { expect, it } from "vitest";
import { parse } from "../api/json";
import { blobOf, head, isSame, oneLine } from "./values";

const line = (json: string, length?: number) => oneLine(parse(json, true), length);

it("writes a value on one line, digit by digit", () => {
  const json = '{"id": 9007199254740993, "price": 12.50, "on": [true, null, "a\\nb"]}';
  expect(line(json)).toEqual({ text: json, isCut: false });
});

it("cuts at the length, and not before", () => {
  expect(line("[1, 2, 3]", 9)).toEqual({ text: "[1, 2, 3]", isCut: false });
  expect(line("[1, 2, 3, 4]", 9)).toEqual({ text: "[1, 2, 3…", isCut: true });
});

it("does not write out a large value to cut it", () => {
  const large = Array.from({ length: 2_000_000 }, (_, at) => at);
  const began = performance.now();
  expect(oneLine(large, 20).text).toBe("[0, 1, 2, 3, 4, 5, …");
  expect(performance.now() - began).toBeLessThan(100);
});

it("knows a value that is stored beside the log", () => {
  expect(blobOf(parse('{"$":"blob","hash":"ab12","size":226000}'))).toEqual({ hash: "ab12", size: 226_000 });
  expect([blobOf(null), blobOf("blob"), blobOf({ hash: "ab12" })]).toEqual([null, null, null]);
});

it("shows the head of a text, never half of a character", () => {
  expect(head("ab😀", 3)).toEqual({ text: "ab", isCut: true });
  expect(head("ab😀", 4)).toEqual({ text: "ab😀", isCut: false });
});

it("compares values by their digits", () => {
  expect(isSame(parse("[1.0]", true), parse("[1.0]", true))).toBe(true);
  expect(isSame(parse("[1.0]", true), parse("[1]", true))).toBe(false);
});
