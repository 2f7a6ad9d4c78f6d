import { describe, expect, it } from "vitest";
import { Exact, numberOf, parse, stringify } from "./json";

describe("exact JSON", () => {
  it.each([
    '{"params":{"n":9007199254740993,"d":1.10,"f":1.0,"e":1e3,"z":-0}}',
    '{"params":[123456789012345678901234567890,0.1234567890123456789]}',
    '{"inputs":{"deep":[[{"a":10000000000000001}]]},"text":"\\u00e9 \\"9007199254740993\\" 1.0,"}',
    "[]",
    "{}",
    '{"a":[],"b":{},"c":null,"d":true,"e":false,"f":""}',
  ])("writes what it read: %s", (text) => {
    expect(parse(stringify(parse(text)))).toEqual(parse(text));
    expect(JSON.parse(stringify(parse(text)))).toEqual(JSON.parse(text));
  });

  it("keeps the digits of a value, byte by byte", () => {
    const text = '{"output":{"n":9007199254740993,"d":1.10,"f":1.0,"e":1e3,"z":-0,"i":12,"r":0.5}}';
    expect(stringify(parse(text))).toBe(text);
    expect(stringify(parse("9007199254740993"))).toBe("9007199254740993");
    expect(stringify(parse("1.0", true))).toBe("1.0");
  });

  it("gives plain numbers for the fields of the API", () => {
    expect(parse('{"ms":12.0,"done":3.50,"big":9007199254740993}')).toEqual({
      ms: 12,
      done: 3.5,
      big: new Exact("9007199254740993"),
    });
  });

  it("does not set the prototype", () => {
    const found = parse('{"__proto__":{"polluted":1.0}}') as object;
    expect(Object.getPrototypeOf(found)).toBe(Object.prototype);
    expect(Object.keys(found)).toEqual(["__proto__"]);
  });

  it.each(['{"a":1.0', "[1.0,]", '{"a" 1.0}', "[1.0 2]", '"1.0', "[01.0]", "[+1.0]"])("refuses %s", (text) => {
    expect(() => parse(text)).toThrow(SyntaxError);
  });

  it("reads a large text without a loss of order", () => {
    const items = Array.from({ length: 20_000 }, (_, i) => `{"seq":${i},"fields":{"ms":${i}.0}}`);
    const found = parse(`[${items.join(",")}]`) as { seq: number; fields: { ms: number } }[];
    expect(found[19_999]).toEqual({ seq: 19_999, fields: { ms: 19_999 } });
  });

  it("makes numbers of what a person typed", () => {
    expect(numberOf("12")).toBe(12);
    expect(numberOf("1.10")).toEqual(new Exact("1.10"));
    expect(numberOf("9007199254740993")).toEqual(new Exact("9007199254740993"));
  });

  it("indents", () => {
    expect(stringify({ a: [1, new Exact("1.0")], b: {}, c: undefined }, 2)).toBe(
      '{\n  "a": [\n    1,\n    1.0\n  ],\n  "b": {}\n}',
    );
  });
});
