import { expect, it } from "vitest";
import { parse, stringify } from "../api/json";
import { changedInputs, kindOf, textOf, valueIn } from "./inputs";

const inputs = parse(
  '{"amount":12345678901234567890,"rate":0.10,"tone":"warm","tags":["a"],"dry":false,"note":null}',
  true,
) as Record<string, unknown>;

it("sends only what was changed, with all digits", () => {
  const texts = { amount: "12345678901234567891", rate: "0.10", tone: "warm" };
  expect(stringify(changedInputs(inputs, texts).values)).toBe('{"amount":12345678901234567891}');
});

it("tells an empty text from null", () => {
  expect(stringify(changedInputs(inputs, { tone: "", note: '""' }).values)).toBe('{"tone":"","note":""}');
  expect(stringify(changedInputs(inputs, { tone: "warm", note: "null" }).values)).toBe("{}");
});

it("says what is wrong with a field", () => {
  const { values, errors } = changedInputs(inputs, { amount: "12,5", tags: "[1" });
  expect(values).toEqual({});
  expect(errors.amount).toBe("This is not a number.");
  expect(errors.tags).toContain("This is not JSON.");
});

it("shows each kind of value as its field needs it", () => {
  expect(Object.values(inputs).map(kindOf)).toEqual(["number", "number", "text", "JSON", "boolean", "null"]);
  expect(textOf(inputs.rate)).toBe("0.10");
  expect(textOf(inputs.tags)).toBe('[\n  "a"\n]');
  expect(valueIn("text", "12")).toEqual({ value: "12" });
});

it("sends fields that a person replaced before as they are shown", () => {
  expect(stringify(changedInputs(inputs, {}, ["tone"]).values)).toBe(stringify({ tone: inputs.tone }));
  expect(stringify(changedInputs(inputs, { tone: "other" }, ["tone"]).values)).toBe('{"tone":"other"}');
});
