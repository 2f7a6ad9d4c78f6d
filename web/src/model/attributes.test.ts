import { expect, it } from "vitest";
import { parse } from "../api/json";
import { type Attribute, attributeText, isCondition, isNumber, parseAttributes, problemWith } from "./attributes";

it.each<[Attribute, string]>([
  ["acme", "acme"],
  ["12", '"12"'],
  ["true", '"true"'],
  ["2026-11-30", '"2026-11-30"'],
  ['"', '"\\""'],
  [12.5, "12.5"],
  [true, "true"],
  [{ time: "2026-11-30T12:00:00.000000Z" }, "2026-11-30T12:00:00Z"],
  [{ time: "2026-11-30T12:00:00.250000Z" }, "2026-11-30T12:00:00.250000Z"],
  [parse("9007199254740993") as unknown as Attribute, "9007199254740993"],
])("%o is written %s", (value, text) => {
  expect(attributeText(value)).toBe(text);
});

it("knows conditions and numbers", () => {
  expect(["customer=acme", "total>=10", "note="].every(isCondition)).toBe(true);
  expect(["customer", "Customer=a", "=a", "1a=b"].some(isCondition)).toBe(false);
  expect(isNumber(parse("9007199254740993") as unknown as Attribute)).toBe(true);
  expect(isNumber("12")).toBe(false);
});

it("asks for the zone of a time", () => {
  expect(problemWith("2026-12-01")).toBe("Write the time with its zone, such as 2026-12-01T00:00Z.");
  expect(problemWith("2026-12-01T10:00")).not.toBe("");
  expect(["2026-12-01T10:00Z", "2026-12-01T10:00+01:00", '"2026-12-01"', "12", "acme"].map(problemWith)).toEqual(
    Array(5).fill(""),
  );
});

it("reads attributes of a start with their types", () => {
  const texts = ["customer=acme", "total=12.5", "paid=true", "due=2026-11-30T12:00Z", 'code="12"', "note=a=b"];
  expect(parseAttributes(texts)).toEqual({
    attributes: {
      customer: "acme",
      total: 12.5,
      paid: true,
      due: { time: "2026-11-30T12:00Z" },
      code: "12",
      note: "a=b",
    },
    error: "",
  });
  expect(parseAttributes(["Total=1"]).error).toBe("Write Total=1 as name=value, with a name in small letters.");
  expect(parseAttributes(["a=1", "a=2"]).error).toBe("a is there twice.");
  expect(parseAttributes(["due=2026-12-01"]).error).toContain("with its zone");
});
