import { describe, expect, test } from "vitest";
import { Exact, parse, stringify } from "../api/json";
import {
  blank,
  type Entry,
  emptiesOf,
  errorsOf,
  filled,
  formOf,
  formOfParameters,
  formValue,
  noteOf,
} from "./schema-form";

const TERMS = parse(`{
  "$ref": "#/$defs/Terms",
  "$defs": {
    "Terms": {"title": "Terms", "type": "object", "required": ["credit_limit", "currency", "payment_days", "contact"],
      "properties": {
        "credit_limit": {"type": "string", "format": "decimal"},
        "currency": {"enum": ["EUR", "JPY", "USD"]},
        "payment_days": {"type": "integer", "minimum": 0, "maximum": 90},
        "contact": {"$ref": "#/$defs/Contact"},
        "regions": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": null},
        "express": {"type": "boolean", "default": false},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}}},
    "Contact": {"title": "Contact", "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "of": {"$ref": "#/$defs/Contact"}}}
  }}`);
const form = formOf(TERMS);
const field = (path: string, spec = form): typeof form => {
  const [name, ...rest] = path.split(".");
  const found = spec.fields.find((each) => each.name === name);
  if (!found) throw new Error(path);
  return rest.length ? field(rest.join("."), found) : found;
};
const put = (entry: Entry, path: string, change: Partial<Entry>): Entry => {
  const [name = "", ...rest] = path.split(".");
  const inner = entry.fields?.[name] ?? { empty: "unset" };
  return {
    ...entry,
    fields: { ...entry.fields, [name]: rest.length ? put(inner, rest.join("."), change) : { ...inner, ...change } },
  };
};

describe("the form of a schema", () => {
  test("has a field for each property, in order, with its type in words", () => {
    expect(form.fields.map((each) => [each.label, noteOf(each), each.isRequired])).toEqual([
      ["Credit limit", "decimal, exact", true],
      ["Currency", "one of 3", true],
      ["Payment days", "whole number", true],
      ["Contact", "", true],
      ["Regions", "list of text or nothing", false],
      ["Express", "yes or no", false],
      ["Note", "text or nothing", false],
    ]);
  });

  test("a type within itself is JSON where it begins again", () => {
    expect(field("contact.of").kind).toBe("json");
  });

  test("what has no field of its own is JSON", () => {
    for (const schema of [
      null,
      {},
      { type: "array", items: { type: "object", properties: {} } },
      { oneOf: [] },
      { type: "object", additionalProperties: {} },
    ])
      expect(formOf(schema).kind).toBe("json");
  });
});

describe("values", () => {
  test("null, empty text and left out are three things", () => {
    const note = field("note");
    expect(emptiesOf(note)).toEqual(["absent", "null", "text"]);
    expect(formValue(note, blank(note))).toBeUndefined();
    expect(formValue(note, { empty: "null", text: "" })).toBeNull();
    expect(formValue(note, { empty: "text", text: "" })).toBe("");
    expect(formValue(note, { empty: "null", text: "x" })).toBe("x");
  });

  test("numbers keep their digits", () => {
    const whole = formOf({ type: "integer" });
    const big = "123456789012345678901234567890";
    expect(stringify(formValue(whole, { empty: "unset", text: big }))).toBe(big);
    const some = formOf({ type: "number" });
    for (const text of ["1.0", "1e3", "0.1000000000000000055", "-0"])
      expect(stringify(formValue(some, { empty: "unset", text }))).toBe(text);
    expect(formValue(field("credit_limit"), { empty: "unset", text: " 25000.00 " })).toBe("25000.00");
  });

  test("a value that fills the form comes out of it digit by digit, also in fields that nobody touched", () => {
    const text =
      '{"credit_limit":"25000.00","currency":"JPY","payment_days":9007199254740993,"contact":{"name":"Petra"},"regions":["eu",""],"note":""}';
    const entry = filled(form, parse(text, true));
    expect(entry && stringify(formValue(form, entry))).toBe(text);
  });

  test("a value that does not fit is said not to", () => {
    expect(filled(form, { currency: "CHF" })).toBeNull();
    expect(filled(form, { unknown: 1 })).toBeNull();
    expect(filled(formOf({ type: "integer" }), "1")).toBeNull();
    expect(filled(formOf({ type: "string" }), null)).toBeNull();
    expect(filled(formOf({ type: "boolean" }), new Exact("1.0"))).toBeNull();
  });

  test("an object of the prototype's names is an object", () => {
    const odd = formOf({ type: "object", properties: { constructor: { type: "string" } }, required: [] });
    expect(formValue(odd, blank(odd))).toEqual({});
  });
});

describe("errors", () => {
  const full = put(
    put(put(put(blank(form), "credit_limit", { text: "1" }), "currency", { choice: 0 }), "payment_days", {
      text: "30",
    }),
    "contact.name",
    { text: "P" },
  );

  test("a form that is filled as it should has none", () => {
    expect([...errorsOf(form, full)]).toEqual([]);
    expect(formValue(form, full)).toEqual({
      credit_limit: "1",
      currency: "EUR",
      payment_days: 30,
      contact: { name: "P" },
      express: false,
    });
  });

  test("what is missing is named by its path", () => {
    expect([...errorsOf(form, blank(form)).keys()]).toEqual([
      "credit_limit",
      "currency",
      "payment_days",
      "contact.name",
    ]);
  });

  test.each([
    ["payment_days", "thirty", "This has to be a whole number, for example 30."],
    ["payment_days", "91", "This has to be at most 90."],
    ["payment_days", "-1", "This has to be at least 0."],
    ["payment_days", "1.0", "This has to be a whole number, for example 30."],
    ["credit_limit", "1,5", "This has to be a decimal number, for example 25000.00."],
  ])("%s %s", (path, text, error) => {
    expect(errorsOf(form, put(full, path, { text })).get(path)).toBe(error);
  });

  test.each([
    [{ type: "string", format: "date" }, "2026-02-30", false],
    [{ type: "string", format: "date" }, "2026-02-28", true],
    [{ type: "string", format: "date-time" }, "2026-12-01T12:00:00Z", true],
    [{ type: "string", format: "date-time" }, "tomorrow", false],
    [{ type: "string", minLength: 2 }, "é", false],
    [{ type: "string", pattern: "^a+$" }, "b", false],
    [{ type: "string", pattern: "(?P<bad>" }, "b", true],
    [{}, '{"a": 1}', true],
    [{}, "{", false],
    [{ type: "array", items: { type: "integer" } }, "x", false],
  ])("%j %s", (schema, text, isRight) => {
    expect(errorsOf(formOf(schema), { empty: "unset", text, items: [] }).size === 0).toBe(isRight);
  });

  test("bounds beyond 2^53 are exact", () => {
    const spec = formOf(parse('{"type": "integer", "maximum": 9007199254740993}', true));
    expect(errorsOf(spec, { empty: "unset", text: "9007199254740993" }).size).toBe(0);
    expect(errorsOf(spec, { empty: "unset", text: "9007199254740994" }).size).toBe(1);
  });
});

test("a default is shown digit by digit, and sent as it is", () => {
  const defaults = parse('{"big": 9007199254740993, "price": "1.10", "note": null, "names": ["a"]}', true) as {
    [name: string]: unknown;
  };
  const spec = formOfParameters([
    { name: "big", required: false, schema: { type: "integer" }, default: defaults.big },
    { name: "price", required: false, schema: { type: "string", format: "decimal" }, default: defaults.price },
    { name: "note", required: false, schema: { anyOf: [{ type: "string" }, { type: "null" }] }, default: null },
    { name: "names", required: false, schema: { type: "array", items: { type: "string" } }, default: defaults.names },
  ]);
  const entry = blank(spec);
  expect(entry.fields?.big?.text).toBe("9007199254740993");
  expect(stringify(formValue(spec, entry))).toBe('{"big":9007199254740993,"price":"1.10","names":["a"]}');
});

test("parameters are fields, and those with a default may be left out", () => {
  const spec = formOfParameters([
    { name: "customer", required: true, schema: { type: "string" } },
    { name: "terms", required: false, schema: TERMS },
  ]);
  expect(spec.fields.map((each) => [each.path, each.label, each.isRequired])).toEqual([
    ["customer", "customer", true],
    ["terms", "terms", false],
  ]);
  expect(spec.fields[1]?.fields[3]?.fields[0]?.path).toBe("terms.contact.name");
  const entry = filled(spec, { customer: "c-204" });
  expect(entry && formValue(spec, entry)).toEqual({ customer: "c-204" });
});
